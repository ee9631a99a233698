import { expect, it } from 'vitest';
import { fixture, spearRun } from './spear-run.ts';

it.each(['c', 'assemblyscript'])(
  'the agent in %s says so and fails when the model does not play along',
  async (language) => {
    const { code, stderr } = await spearRun([
      fixture(`${language}/agent.wasm`),
      '--script',
      fixture('scripts/sum.json'),
    ]);
    expect(code).toBe(1);
    expect(stderr).toContain('the audit did not finish: script sum.json: no unused turn matches; received: ');
    expect(stderr).toContain('tools offered: read_policy, total_by, find_claims, flag_claim');
  },
);

it.each(['c/chat.wasm', 'c/chat.component.wasm', 'assemblyscript/chat.wasm', 'assemblyscript/chat.component.wasm'])(
  '%s takes its question from the command line [guests.arguments]',
  async (guest) => {
    const { code, stdout } = await spearRun([fixture(guest), '--', 'Why?']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: '[stub] no model is configured; you said: Why?\n' });
  },
);

it('a guest that cannot see its arguments is said not to, once [guests.arguments]', async () => {
  const { code, stdout, stderr } = await spearRun([fixture('rust/hello.wasm'), '--', 'Why?', 'Now?']);
  expect({ code, stdout }).toEqual({ code: 0, stdout: 'hello from Rust\n' });
  expect(stderr).toBe(
    'spear-run: the guest cannot read its 2 arguments: the module imports neither args_get of WASI nor wasi:cli/environment\n',
  );
});
