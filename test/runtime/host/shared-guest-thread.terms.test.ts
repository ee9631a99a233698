import { describe, expect, it } from 'vitest';
import { SharedTerms } from '../../../src/runtime/host/shared-guest-thread.ts';
import type { SharedGuestTerms } from '../../../src/runtime/port/guest-spec.ts';
import { compileLimits } from '../../../src/runtime/port/limits.ts';
import { disabledTask } from '../../../src/runtime/port/policy-layers.ts';

const limits = compileLimits();
const terms: SharedGuestTerms = {
  args: ['guest'],
  limits,
  mcpTask: disabledTask,
  servesStreams: false,
  verbose: false,
};

function telling() {
  const said: (readonly [word: 'told' | 'forgot', key: number])[] = [];
  const told = new SharedTerms(
    (key) => said.push(['told', key]),
    (key) => said.push(['forgot', key]),
  );
  return { told, said };
}

describe('terms that many guests of a thread share', () => {
  it('are posted once', () => {
    const { told, said } = telling();
    expect(told.key(terms)).toBe(told.key({ ...terms, args: ['guest'] }));
    expect(said).toEqual([['told', 1]]);
  });

  it.each([
    ['arguments', { args: ['guest', 'x'] }],
    ['one argument', { args: ['other'] }],
    ['limits', { limits: { ...limits, turn_ms: 20 } }],
    ['policy', { mcpTask: { ...disabledTask } }],
    ['streams', { servesStreams: true }],
    ['verbosity', { verbose: true }],
  ])('again for other %s', (_what, change) => {
    const { told } = telling();
    expect(told.key({ ...terms, ...change })).not.toBe(told.key(terms));
  });

  it('are bounded in number: the oldest are dropped from the thread', () => {
    const { told, said } = telling();
    for (let n = 0; n < 200; n++) told.key({ ...terms, args: [`task ${n}`] });
    const count = (word: string) => said.filter(([each]) => each === word).length;
    expect(count('told') - count('forgot')).toBe(64);
    expect(said.find(([word]) => word === 'forgot')).toEqual(['forgot', 1]);
  });
});
