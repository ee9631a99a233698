import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { aliases, encodedName, NameClaims, NameTable, toolName } from '../../../src/agent/mcp/tool-names.ts';

const alone = new NameClaims([]);
const provider = /^[A-Za-z0-9_-]{1,64}$/;

describe('the encoded name', () => {
  it.each([
    ['fs', 'read_file', 'mcp__ZnM__cmVhZF9maWxl'],
    ['gitlab', 'create_issue', 'mcp__Z2l0bGFi__Y3JlYXRlX2lzc3Vl'],
    ['a', 'b', 'mcp__YQ__Yg'],
    ['a.b', 'c/d', 'mcp__YS5i__Yy9k'],
    ['s', 'größe ✓', 'mcp__cw__Z3LDtsOfZSDinJM'],
    // base64url has no "+" and no "/", and is not padded
    ['s', '?>?>', 'mcp__cw__Pz4_Pg'],
    ['s', '', 'mcp__cw__'],
  ])('of %s/%s is %s [mcp.names.encoded]', (server, tool, expected) => {
    expect(encodedName(server, tool)).toBe(expected);
  });

  it('is replaced by a hash where it would have more than 64 characters [mcp.names.hash]', () => {
    // "mcp__" + 4 + "__" + base64url of the tool: 39 bytes are 52 characters and make 63, 40 bytes make 65.
    expect(encodedName('srv', 'x'.repeat(39))).toHaveLength(63);
    expect(encodedName('srv', 'x'.repeat(39))).toMatch(/^mcp__c3J2__/);
    const long = 'x'.repeat(40);
    const hash = createHash('sha256').update(`srv\0${long}`).digest('base64url');
    expect(hash).toHaveLength(43);
    expect(encodedName('srv', long)).toBe(`mcp__${hash}`);
  });

  it('has exactly 64 characters at most without a hash [mcp.names.hash]', () => {
    const tool = 'y'.repeat(38);
    const server = 'abcd';
    const plain = `mcp__${Buffer.from(server).toString('base64url')}__${Buffer.from(tool).toString('base64url')}`;
    expect(plain).toHaveLength(64);
    expect(encodedName(server, tool)).toBe(plain);
    expect(encodedName(server, `${tool}y`)).toHaveLength('mcp__'.length + 43);
  });

  it('of a hash is the same on every run [mcp.names.hash]', () => {
    expect(encodedName('a-server-with-quite-a-long-id', 'and_a_tool_with_quite_a_long_name')).toBe(
      'mcp__0hB4UNG2vk3zi3p5vdlhhlCn8ARkKuSS-49vjTiG1V0',
    );
  });

  it('is one that providers take, and another for every other tool [mcp.names.encoded]', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 60 });
    fc.assert(
      fc.property(text, text, text, text, (server, tool, otherServer, otherTool) => {
        expect(encodedName(server, tool)).toMatch(provider);
        fc.pre(server !== otherServer || tool !== otherTool);
        fc.pre(!server.includes('\0') && !otherServer.includes('\0')); // no server id has one
        expect(encodedName(server, tool)).not.toBe(encodedName(otherServer, otherTool));
      }),
    );
  });
});

describe('the readable name', () => {
  const fs = { server_id: 'fs', tool_prefix: 'files' };
  it.each([
    ['files', 'read_file', 'files_read_file'],
    ['files', 'read-file', 'files_read-file'],
    ['git.lab', 'read', encodedName('fs', 'read')],
    ['files', 'read file', encodedName('fs', 'read file')],
    ['files', 'größe', encodedName('fs', 'größe')],
    ['files', 'a/b', encodedName('fs', 'a/b')],
    ['files', 'x'.repeat(58), `files_${'x'.repeat(58)}`],
    ['files', 'x'.repeat(59), encodedName('fs', 'x'.repeat(59))],
  ])('of prefix %s and tool %s is %s', (tool_prefix, tool, expected) => {
    expect(toolName({ server_id: 'fs', tool_prefix }, tool, 'readable', alone)).toBe(expected);
  });

  it('is used only where the session asks for it', () => {
    expect(toolName(fs, 'read_file', 'encoded', alone)).toBe('mcp__ZnM__cmVhZF9maWxl');
  });
});

describe('the aliases', () => {
  it.each([
    ['mcp.fs', ['mcp.fs.read_file']],
    ['files', ['mcp.fs.read_file', 'files.read_file']],
  ])('with the namespace %s are %j [mcp.names.alias]', (tool_namespace, expected) => {
    expect(aliases({ server_id: 'fs', tool_namespace }, 'read_file', alone)).toEqual(expected);
  });
});

describe('the table of names', () => {
  it('finds a tool under its name and its aliases, and under nothing else [mcp.names.alias]', () => {
    const table = new NameTable<string>();
    expect(table.add('mcp__ZnM__cg', ['mcp.fs.r', 'files.r'], 'fs/r')).toBe(true);
    expect(['mcp__ZnM__cg', 'mcp.fs.r', 'files.r'].map((name) => table.get(name))).toEqual(['fs/r', 'fs/r', 'fs/r']);
    for (const name of ['mcp__ZnM__c', 'mcp__ZnM__cg=', 'MCP.fs.r', 'mcp.fs.r ', 'fs.r', 'r', '']) {
      expect(table.get(name)).toBeUndefined();
    }
  });

  it('refuses an alias that two tools have, while their names still work', () => {
    const table = new NameTable<string>();
    // server "a" with tool "b.c", and server "a.b" with tool "c"
    table.add('one', ['mcp.a.b.c'], 'a/b.c');
    table.add('two', ['mcp.a.b.c'], 'a.b/c');
    expect(table.get('mcp.a.b.c')).toBeUndefined();
    table.add('three', ['mcp.a.b.c'], 'a third');
    expect(table.get('mcp.a.b.c')).toBeUndefined();
    expect([table.get('one'), table.get('two')]).toEqual(['a/b.c', 'a.b/c']);
  });

  it('leaves a name to the tool that had it first, and takes no alias of the other [mcp.names.collision]', () => {
    const table = new NameTable<string>();
    expect(table.add('same', ['mcp.a.t'], 'first')).toBe(true);
    expect(table.add('same', ['mcp.b.t'], 'second')).toBe(false);
    expect([table.get('same'), table.get('mcp.a.t'), table.get('mcp.b.t')]).toEqual(['first', 'first', undefined]);
  });
});
