import { expect, it, onTestFinished } from 'vitest';
import { encodedName } from '../../../src/agent/mcp/tool-names.ts';
import { McpToolbox } from '../../../src/index.ts';
import { fixture, stdioRecord, tempDir } from './client/pool-samples.ts';
import { callOf, inject, never, openHost } from './mcp-host.ts';

const { result } = (await import(fixture('kinds.mjs'))) as { result: object };

it('every kind of content and _meta reach a guest that calls MCP as they are; the model gets no _meta [pool.result.shape]', async () => {
  const host = await openHost([stdioRecord('kinds', 'kinds.mjs')]);
  const guest = host.guest();
  const about = { serverId: 'kinds', tool: 'give', arguments: '{}', callId: 'c', session: 's' };
  expect(JSON.parse(await guest.call(about, never))).toEqual(result);
  const { _meta, ...withoutMeta } = result as { _meta: object };
  expect(await callOf(await inject(guest), encodedName('kinds', 'give'))).toEqual(withoutMeta);
});

it('and a program with a toolbox [pool.result.shape]', async () => {
  const transport = { kind: 'stdio', command: process.execPath, args: [fixture('kinds.mjs')] } as const;
  const box = new McpToolbox({ servers: [{ name: 'kinds', transport }], stateDir: tempDir() });
  await box.connect();
  onTestFinished(() => box.disconnect());
  expect((await box.tool('kinds_give').call({})).value).toEqual(result);
});
