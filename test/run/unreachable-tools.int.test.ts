import { expect, it } from 'vitest';
import { openScriptedBackend } from '../../src/agent/chat/backends/scripted.ts';
import { NO_FUNCTION_TABLE } from '../../src/runtime/abi/guest-module.ts';
import { fixtureBytes, runFixture } from '../support/run-fixture.ts';
import { withoutTable } from '../support/without-table.ts';

const calling = (name: string) => [
  { when: { role: 'user' }, reply: { tool_calls: [{ id: 'call_1', name, arguments: {} }] } },
  {
    when: { role: 'tool', content: { contains: 'exports no function table' } },
    reply: { content: 'The tool is broken.' },
  },
];
const model = (turns: unknown) => openScriptedBackend('scripted', 'model.json', () => JSON.stringify({ turns }));

it('a run whose tools could not be called is no good one, and the model knows why [tool.unreachable]', async () => {
  const run = await runFixture(withoutTable(await fixtureBytes('c/sum.wasm')), {
    backend: await model(calling('sum')),
  });
  expect(run.stdout).toBe('The tool is broken.\n');
  expect(run).toMatchObject({
    reason: 'module',
    exitCode: null,
    message: `the tools of the guest could not be called: ${NO_FUNCTION_TABLE}`,
    notices: [`the tools of this guest will fail: ${NO_FUNCTION_TABLE}`],
  });
});

it('a guest that fails itself keeps its exit code [tool.unreachable]', async () => {
  const turns = calling('read_policy').slice(0, 1);
  const run = await runFixture(withoutTable(await fixtureBytes('c/agent.wasm')), { backend: await model(turns) });
  expect(run).toMatchObject({ reason: 'exit', exitCode: 1 });
  expect(run.notices).toContain(`the tools of the guest could not be called: ${NO_FUNCTION_TABLE}`);
});

it('a guest whose tools were not called ends normally [tool.unreachable]', async () => {
  const backend = await model([{ reply: { content: '42' } }]);
  const run = await runFixture(withoutTable(await fixtureBytes('c/sum.wasm')), { backend });
  expect(run).toMatchObject({ reason: 'exit', exitCode: 0, stdout: '42\n' });
});

it('arguments that the guest does not read are reported once [guests.arguments]', async () => {
  const run = await runFixture('c/hello.wasm', { args: ['Why?'] });
  expect(run).toMatchObject({ reason: 'exit', exitCode: 0 });
  expect(run.notices).toEqual([
    'the guest cannot read its argument: the module imports neither args_get of WASI nor wasi:cli/environment',
  ]);
});
