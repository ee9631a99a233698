import { expect, it } from 'vitest';
import { Leash } from '../../../src/runtime/guest/leash.ts';

function onLeash() {
  const said: string[] = [];
  const leash = new Leash({
    resumes: () => said.push('resumes'),
    waits: () => said.push('waits'),
    closed: () => said.push('closed'),
  });
  return { leash, said };
}

it('a wait that is over gives the guest its thread back', async () => {
  const { leash, said } = onLeash();
  expect(await leash.hold(Promise.resolve(5))).toBe(5);
  await expect(leash.hold(Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(said).toEqual(['waits', 'resumes', 'waits', 'resumes']);
});

it('waits end with the guest, the innermost first, and what comes afterwards is nobody’s', async () => {
  const { leash, said } = onLeash();
  const { promise, resolve } = Promise.withResolvers<void>();
  const ends: string[] = [];
  const outer = leash.hold(promise) as Promise<void>;
  const inner = leash.hold(new Promise<void>(() => {})) as Promise<void>;
  const trapped = [outer.catch(() => ends.push('outer')), inner.catch(() => ends.push('inner'))];
  const forgotten = leash.atEnd(() => said.push('forgotten'));
  leash.atEnd(() => said.push('stopped'));
  forgotten();
  leash.end();
  resolve();
  await Promise.all(trapped);
  expect(ends).toEqual(['inner', 'outer']);
  expect(said).toEqual(['waits', 'waits', 'stopped', 'closed']);
  expect(() => leash.hold(1)).toThrow(WebAssembly.RuntimeError);
});
