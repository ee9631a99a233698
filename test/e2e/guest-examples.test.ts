import { expect, it } from 'vitest';
import { fixture, spearRun } from './spear-run.ts';

it.each(['c', 'assemblyscript'])(
  'the agent in %s says so and fails when the model does not play along [examples.agent]',
  async (language) => {
    const { code, stderr } = await spearRun([
      fixture(`${language}/agent.wasm`),
      '--script',
      fixture('scripts/sum.json'),
    ]);
    expect(code).toBe(1);
    expect(stderr).toContain('the audit did not finish: script sum.json: no unused turn matches; came: ');
    expect(stderr).toContain('tools offered: read_policy, total_by, find_claims, flag_claim');
  },
);

it.each(['c', 'assemblyscript'])(
  'the chat in %s takes its question from the command line [examples.chat]',
  async (language) => {
    const { code, stdout } = await spearRun([fixture(`${language}/chat.wasm`), '--', 'Why?']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: '[stub] no model is configured; you said: Why?\n' });
  },
);
