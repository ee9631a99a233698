import { randomUUID } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fixture, scratch, spearRun } from '../../e2e/spear-run.ts';
import { processesWith } from './client/pool-samples.ts';
import { fileWith, recordDir, recordOf, script, taskWith, taskWithMcp } from './mcp-run.ts';

const hello = fixture('c/hello.wasm');
const mcp = fixture('c/mcp.wasm');
const tinyDir = () => ['--mcp-dir', recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs') })];
const echo = ['--', 'tiny', 'echo', '{"message":"hi"}'];
const echoed = 'tiny offers 5 tools\n{"content":[{"text":"hi","type":"text"}]}\n1 calls, 0 failed\n';

describe('spear-run --mcp-dir', () => {
  it('runs the real servers of a directory for a guest that calls them [cli.mcp]', async () => {
    const env = { MEMORY_FILE: join(scratch, 'memory.jsonl') };
    const flags = [...taskWithMcp(['everything', 'files', 'memory']), '--mcp-dir', fixture('mcp.d')];
    const run = async (server: string, tool: string, args: object) => {
      const { code, stdout, stderr } = await spearRun([mcp, ...flags, '--', server, tool, JSON.stringify(args)], {
        env,
      });
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      return stdout;
    };
    expect(await run('everything', 'get-sum', { a: 2, b: 40 })).toContain('42');
    expect(await run('files', 'list_directory', { path: fixture('demo/notes') })).toContain('roadmap.md');
    const entities = [{ name: 'Ada', entityType: 'person', observations: ['counts'] }];
    expect(await run('memory', 'create_entities', { entities })).toContain('Ada');
    expect(readFileSync(env.MEMORY_FILE, 'utf8')).toContain('Ada');
  });

  it('runs them for a guest that knows nothing of them [cli.mcp]', async () => {
    const answer = 'The launch is on 3 November.';
    const model = script(
      {
        when: { role: 'user', tools: ['fs_read_text_file', 'fs_list_directory'] },
        reply: {
          tool_calls: [
            { id: 'a', name: 'fs_read_text_file', arguments: { path: fixture('demo/notes/roadmap.md') } },
            { id: 'b', name: 'fs_write_file', arguments: { path: 'x', content: 'y' } },
          ],
        },
      },
      { when: { tool_call_id: 'b', content: { contains: 'mcp_policy_denied' } }, reply: { content: answer } },
    );
    const flags = [...taskWithMcp(['files']), '--mcp-dir', fixture('mcp.d'), ...model];
    const { code, stdout, stderr } = await spearRun([fixture('c/files.wasm'), ...flags]);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toContain(answer);
  });

  it('reports bad files with name, line and field, and runs with the good ones [cli.mcp.bad-files]', async () => {
    const dir = recordDir({
      'a-broken.json': '{\n  "server_id": "broken",\n',
      'b-wrong.toml': 'server_id = "wrong"\ntransport = "carrier_pigeon"\n',
      'c-tiny.json': recordOf('tiny', 'tiny.mjs'),
      'd-extra.json': { ...recordOf('extra', 'tiny.mjs'), colour: 'blue' },
      'notes.txt': 'not a record',
      '.hidden.json': '{',
    });
    const { code, stdout, stderr } = await spearRun([mcp, ...taskWithMcp(['tiny']), '--mcp-dir', dir, ...echo]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: echoed });
    expect(stderr).toMatch(new RegExp(`^spear-run: ${dir}/a-broken.json:\\d+: .*JSON`, 'm'));
    expect(stderr).toMatch(new RegExp(`^spear-run: ${dir}/b-wrong.toml:2: transport `, 'm'));
    expect(stderr).toMatch(new RegExp(`^spear-run: ${dir}/d-extra.json:\\d+: colour `, 'm'));
    expect(stderr).not.toMatch(/notes\.txt|hidden/);
  });

  it.each<[string, string | object, string]>([
    ['a bad file', 'server_id = 1', 'bad.toml'],
    ['an unknown field', '', 'bad.toml'],
  ])('refuses to run with --strict: %s [cli.mcp.strict]', async (what, content, name) => {
    const bad =
      what === 'a bad file' ? { [name]: content } : { 'extra.json': { ...recordOf('x', 'tiny.mjs'), colour: 'blue' } };
    const dir = recordDir({ 'tiny.json': recordOf('tiny', 'tiny.mjs'), ...bad });
    const flags = [...taskWithMcp(['tiny']), '--mcp-dir', dir, '--strict'];
    const { code, stdout, stderr } = await spearRun([mcp, ...flags, ...echo]);
    expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
    expect(stderr).toContain(`spear-run: --mcp-dir ${dir}: refused by --strict because of the files above\n`);
  });

  it('runs with --strict where every file is right [cli.mcp.strict]', async () => {
    const result = await spearRun([mcp, ...taskWithMcp(['tiny']), ...tinyDir(), '--strict', ...echo]);
    expect(result).toMatchObject({ code: 0, stdout: echoed, stderr: '' });
  });

  it('names a directory that cannot be read, and exits with 125 [cli.mcp.bad-files]', async () => {
    const nowhere = join(scratch, 'nowhere');
    const { code, stderr } = await spearRun([mcp, ...taskWithMcp(['tiny']), '--mcp-dir', nowhere, ...echo]);
    expect(code).toBe(125);
    expect(stderr).toMatch(new RegExp(`^spear-run: --mcp-dir ${nowhere}: .*ENOENT`));
  });

  it.each<[string, string[]]>([
    ['there is no task config', []],
    ['the task says nothing of MCP', taskWith({})],
    ['the task has MCP off', taskWith({ 'mcp.enabled': false, 'mcp.default_server_ids': ['tiny'] })],
  ])('says that it has no effect where %s', async (_, task) => {
    const { code, stdout, stderr } = await spearRun([hello, ...task, '--mcp-dir', join(scratch, 'nowhere')]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'hello from C\n' });
    expect(stderr).toBe('spear-run: --mcp-dir has no effect: the task config does not turn MCP on (mcp.enabled)\n');
  });
});

describe('the mcp.* keys of a task', () => {
  it.each<[string, Record<string, string>, string[]]>([
    ['no truth value', { 'mcp.enabled': 'yes' }, ['config.mcp.enabled: must be true or false']],
    ['no JSON', { 'mcp.default_server_ids': 'fs' }, ['config.mcp.default_server_ids: must be a JSON list']],
    ['no list', { 'mcp.allowed_server_ids': '"fs"' }, ['config.mcp.allowed_server_ids: must be a JSON list']],
    [
      'no server id',
      { 'mcp.default_server_ids': '["a b"]' },
      ['config.mcp.default_server_ids: entry 0 is not a server id'],
    ],
    ['no patterns', { 'mcp.tool_allowlist': '[1]' }, ['config.mcp.tool_allowlist: must be a list of strings']],
    ['an empty pattern', { 'mcp.tool_denylist': '[""]' }, ['config.mcp.tool_denylist: [0] ']],
    [
      'an unknown key',
      { 'mcp.enable': 'true' },
      ['config.mcp.enable: is not a key of the task config; did you mean "mcp.enabled"?'],
    ],
    [
      'a key of the session',
      { 'mcp.server_ids': '["fs"]' },
      ['config.mcp.server_ids: is not a key of the task config'],
    ],
    [
      'a default set beyond the allowed one',
      { 'mcp.default_server_ids': '["a","b"]', 'mcp.allowed_server_ids': '["a"]' },
      ['config.mcp.default_server_ids: names servers that are not in mcp.allowed_server_ids: b'],
    ],
    [
      'two mistakes',
      { 'mcp.enabled': '1', 'mcp.tool_denylist': '{}' },
      ['config.mcp.enabled: ', 'config.mcp.tool_denylist: '],
    ],
  ])('%s: named with the file, and 125, run or checked', async (_, config, expected) => {
    const task = fileWith('task.json', { config });
    for (const flags of [[], ['--dry-run']]) {
      const { code, stdout, stderr } = await spearRun([hello, '--task-config', task, ...flags]);
      expect({ code, stdout }).toEqual({ code: 125, stdout: '' });
      for (const text of expected) expect(stderr).toContain(`spear-run: ${task}: ${text}`);
    }
  });

  it('warns of MCP without a default set, and goes on', async () => {
    const { code, stdout, stderr } = await spearRun([hello, ...taskWith({ 'mcp.enabled': true }), ...tinyDir()]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'hello from C\n' });
    expect(stderr).toMatch(
      /^spear-run: \S+task\.json: config\.mcp\.enabled: MCP is enabled, but mcp\.default_server_ids is empty/,
    );
    expect(stderr.split('\n')).toHaveLength(2);
  });

  it.each<[string, object, string]>([
    ['unknown', recordOf('other', 'tiny.mjs'), '"tiny" is not in the registry'],
    [
      'denied all its tools',
      recordOf('tiny', 'tiny.mjs', { allowed_tools: [] }),
      'the server "tiny" has no allowed_tools',
    ],
  ])('warns of a set that is empty in the end: every server is %s', async (_, record, expected) => {
    const dir = recordDir({ 'record.json': record });
    const { code, stdout, stderr } = await spearRun([hello, ...taskWithMcp(['tiny']), '--mcp-dir', dir]);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'hello from C\n' });
    expect(stderr).toContain(`spear-run: no MCP tools for the model: ${expected}`);
  });

  it('warns of MCP without a registry, and goes on', async () => {
    const { code, stderr } = await spearRun([hello, ...taskWithMcp(['tiny'])]);
    expect(code).toBe(0);
    expect(stderr).toContain(
      'spear-run: the task turns MCP on, but no registry is configured: set --mcp-dir or --sms\n',
    );
    const required = await spearRun([hello, ...taskWithMcp(['tiny']), '--require-registry']);
    expect(required).toMatchObject({ code: 125, stdout: '', stderr: stderr.slice(0, stderr.indexOf('\n') + 1) });
  });
});

describe('--dry-run', () => {
  it('tells which servers the task would have, and starts none of them', async () => {
    const marker = `test-${randomUUID().slice(0, 8)}`;
    const env = { MARKER: marker };
    const dir = recordDir({
      'a.json': recordOf('a', 'tiny.mjs', { env }),
      'b.json': recordOf('b', 'tiny.mjs', { env, allowed_tools: [] }),
    });
    const audit = join(scratch, 'dry-run.jsonl');
    const flags = [...taskWithMcp(['a', 'b', 'c']), '--mcp-dir', dir, '--audit', audit, '--dry-run'];
    const { code, stdout, stderr } = await spearRun([mcp, ...flags, '--', 'a', 'pid', '{}']);
    expect(code).toBe(0);
    expect(stderr).toMatch(/^spear-run: [^\n]+b\.json:1: allowed_tools is empty[^\n]+\n$/);
    expect(stdout).toContain('\nmcp      a\n         excluded: b (deny_all): ');
    expect(stdout).toContain('\n         excluded: c (unknown_server): ');
    expect(stdout).toMatch(/\nnot run \(--dry-run\)\n$/);
    expect(existsSync(audit)).toBe(false);
    expect(processesWith(marker)).toEqual([]);
    const json = await spearRun([mcp, ...flags, '--json']);
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: true, servers: ['a'] });
  });

  it('reports bad records, and refuses them with --strict', async () => {
    const flags = [...taskWithMcp(['a']), '--mcp-dir', recordDir({ 'a.json': '{' }), '--dry-run'];
    const lenient = await spearRun([mcp, ...flags]);
    expect([lenient.code, lenient.stderr.includes('a.json:1')]).toEqual([0, true]);
    expect((await spearRun([mcp, ...flags, '--strict'])).code).toBe(125);
  });
});
