import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { aliases, encodedName, NameClaims, toolName } from '../../../src/agent/mcp/tool-names.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { sampleRecord } from '../../server/records/server-samples.ts';
import { fixture } from './client/pool-records.ts';
import { stdioRecord } from './client/pool-samples.ts';
import { inject, namesOf, openHost, textOf } from './mcp-host.ts';
import { fileWith } from './mcp-run.ts';

const readable = (claims: NameClaims, record: McpServerRecord, tool: string) =>
  toolName(record, tool, 'readable', claims);

describe('a name that two servers could have', () => {
  const git = sampleRecord('git');
  const gitHub = sampleRecord('git_hub');
  const claims = new NameClaims([git, gitHub]);

  it('is given to neither, whatever they list [mcp.names.own]', () => {
    expect(readable(claims, git, 'hub_x')).toBe(encodedName('git', 'hub_x'));
    expect(readable(claims, gitHub, 'x')).toBe(encodedName('git_hub', 'x'));
    expect(readable(claims, git, 'log')).toBe('git_log');
    expect(readable(claims, git, 'hubs')).toBe('git_hubs');
  });

  it('is no alias of either [mcp.names.own]', () => {
    const [a, ab] = [sampleRecord('a', { tool_namespace: 'n' }), sampleRecord('a.b', { tool_namespace: 'n.b' })];
    const both = new NameClaims([a, ab]);
    expect(aliases(a, 'c', both)).toEqual(['mcp.a.c', 'n.c']);
    expect(aliases(a, 'b.c', both)).toEqual([]);
    expect(aliases(ab, 'c', both)).toEqual([]);
  });

  it('may not look like an encoded one [mcp.names.own]', () => {
    const mcp = sampleRecord('mcp');
    expect(readable(new NameClaims([mcp]), mcp, '_ZnM__YS9i')).toBe(encodedName('mcp', '_ZnM__YS9i'));
  });
});

const part = fc.stringMatching(/^[a-c][a-c_]{0,4}$/);
const servers = fc
  .uniqueArray(fc.record({ id: part, prefix: part, namespace: part }), { selector: ({ id }) => id, maxLength: 6 })
  .map((some) =>
    some.map(({ id, prefix, namespace }) => sampleRecord(id, { tool_prefix: prefix, tool_namespace: namespace })),
  );
const tools = fc.uniqueArray(fc.stringMatching(/^[a-c_.]{1,6}$/), { maxLength: 8 });

it('no two tools of any servers have one name, nor an alias that is the name of another [mcp.names.own]', () => {
  fc.assert(
    fc.property(servers, tools, (records, listed) => {
      const claims = new NameClaims(records);
      const meant = new Map<string, string>();
      for (const record of records) {
        for (const tool of listed) {
          for (const name of [readable(claims, record, tool), ...aliases(record, tool, claims)]) {
            expect([name, meant.get(name) ?? record.server_id]).toEqual([name, record.server_id]);
            meant.set(name, record.server_id);
          }
        }
      }
    }),
  );
});

it('a server that comes later takes names away, and gets none that another had [mcp.names.own]', () => {
  fc.assert(
    fc.property(servers, tools, (records, listed) => {
      const names = (some: readonly McpServerRecord[]) => {
        const claims = new NameClaims(some);
        return new Map(
          some.flatMap((record) => listed.map((tool) => [readable(claims, record, tool), record.server_id] as const)),
        );
      };
      const before = names(records.slice(0, -1));
      for (const [name, server] of names(records)) expect(before.get(name) ?? server).toBe(server);
    }),
  );
});

describe('with real servers', () => {
  const naming = { params: [['mcp.tool_naming', 'readable']] } as const;
  const serving = (id: string, ...names: string[]) => {
    const own = names.map((name) => `${name}: { call: () => text(${JSON.stringify(`${name} of ${id}`)}) }`);
    const file = fileWith(
      `${id}.mjs`,
      `import { serve, text } from ${JSON.stringify(fixture('raw-rpc.mjs'))}; serve({ ${own.join(', ')} });`,
    );
    return stdioRecord(id, file);
  };

  it('a tool cannot take the name of another server’s tool, even while that one is away [mcp.names.own]', async () => {
    const away = stdioRecord('git_hub', '/no/such/server.mjs');
    const host = await openHost([serving('git', 'hub_push', 'log'), away]);
    const guest = host.guest();
    const first = await inject(guest, naming);
    expect(namesOf(first)).toEqual([encodedName('git', 'hub_push'), 'git_log']);
    expect(first.owns('git_hub_push')).toBe(true);

    await host.upsert(serving('git_hub', 'push'));
    const second = await inject(guest, naming);
    expect(namesOf(second)).toEqual([encodedName('git', 'hub_push'), 'git_log', encodedName('git_hub', 'push')]);
    expect(await textOf(second, encodedName('git_hub', 'push'))).toBe('push of git_hub');
    expect(await textOf(second, 'git_log')).toBe('log of git');
  });

  it('a session that leaves the other server out gets no name of it either [mcp.names.own]', async () => {
    const host = await openHost([serving('git', 'hub_push'), serving('git_hub', 'push')]);
    const guest = host.guest();
    const only = (id: string) => inject(guest, { params: [...naming.params, ['mcp.server_ids', [id]]] });
    expect(namesOf(await only('git'))).toEqual([encodedName('git', 'hub_push')]);
    expect(namesOf(await only('git_hub'))).toEqual([encodedName('git_hub', 'push')]);
  });
});
