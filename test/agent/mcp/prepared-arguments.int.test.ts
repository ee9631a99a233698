import { expect, it } from 'vitest';
import type { ApprovalRequest } from '../../../src/agent/approvals/request.ts';
import { GuestMcp } from '../../../src/agent/mcp/guest-mcp.ts';
import type { JsonObject } from '../../../src/base/json.ts';
import type { McpServerRecord } from '../../../src/server/records/server.ts';
import { taskWith } from '../policy/policy-samples.ts';
import { fixture, stdioRecord } from './client/pool-samples.ts';
import { openHost } from './mcp-host.ts';
import { fileWith } from './mcp-run.ts';

const schema = {
  type: 'object',
  properties: { depth: { type: 'integer', default: 3 }, filter: { type: 'string' } },
  required: ['depth'],
  additionalProperties: false,
};

/** A server whose tool answers with the arguments that reached it. */
const showing = (approval: 'never' | 'always'): McpServerRecord => {
  const file = fileWith(
    'showing.mjs',
    `import { serve, text } from ${JSON.stringify(fixture('raw-rpc.mjs'))};
     serve({ show: { schema: ${JSON.stringify(schema)}, call: (args) => text(JSON.stringify(args)) } });`,
  );
  const record = stdioRecord('s', file);
  return Object.freeze({ ...record, approval_policy: { default: approval, per_tool: {} } });
};

const sent = { depth: 3 };

it.each(['never', 'always'] as const)(
  'the server, the trail and whoever approves (%s) see the same arguments [mcp.arguments.prepared]',
  async (approval) => {
    const host = await openHost([showing(approval)]);
    const asked: ApprovalRequest[] = [];
    const guest = new GuestMcp(host, 'run-1', taskWith({ defaultServerIds: ['s'] }), {
      decide: async (request) => {
        asked.push(request);
        return { decision: 'allow_once' };
      },
    });
    const about = { serverId: 's', tool: 'show', callId: 'c', session: 'x' };
    const answer = await guest.call({ ...about, arguments: '{"filter":null}' }, new AbortController().signal);
    const { content } = JSON.parse(answer) as { content: { text: string }[] };
    expect(JSON.parse(content[0]?.text ?? '') as JsonObject).toEqual(sent);
    expect(host.told('tool_call.started').map(({ args }) => args)).toEqual([sent]);
    expect(asked.map((request) => request.arguments)).toEqual(approval === 'never' ? [] : [sent]);
    expect(host.told('approval.asked').map(({ args }) => args)).toEqual(approval === 'never' ? [] : [sent]);
  },
);

it('what cannot be mended is refused and told as it was given [mcp.arguments.prepared]', async () => {
  const host = await openHost([showing('never')]);
  const call = { serverId: 's', tool: 'show', callId: 'c', session: 'x', arguments: '{"depth":null}' };
  const answer = await host.guest().call(call, new AbortController().signal);
  expect(JSON.parse(answer)).toMatchObject({ error: { code: 'mcp_invalid_arguments' } });
  expect(host.told('tool_call.started').map(({ args }) => args)).toEqual([{ depth: null }]);
});
