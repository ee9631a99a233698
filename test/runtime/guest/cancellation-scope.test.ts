import { expect, it } from 'vitest';
import { CancellationScope } from '../../../src/runtime/guest/cancellation-scope.ts';

function openScope() {
  const said: string[] = [];
  const scope = new CancellationScope({
    resumed: () => said.push('resumes'),
    suspended: () => said.push('waits'),
    closed: () => said.push('closed'),
  });
  return { scope, said };
}

it('the end of a wait resumes the guest', async () => {
  const { scope, said } = openScope();
  expect(await scope.guard(Promise.resolve(5))).toBe(5);
  await expect(scope.guard(Promise.reject(new Error('no')))).rejects.toThrow('no');
  expect(said).toEqual(['waits', 'resumes', 'waits', 'resumes']);
});

it('waits are rejected when the guest ends, the innermost first, and later results are dropped', async () => {
  const { scope, said } = openScope();
  const { promise, resolve } = Promise.withResolvers<void>();
  const ends: string[] = [];
  const outer = scope.guard(promise) as Promise<void>;
  const inner = scope.guard(new Promise<void>(() => {})) as Promise<void>;
  const trapped = [outer.catch(() => ends.push('outer')), inner.catch(() => ends.push('inner'))];
  const forgotten = scope.atEnd(() => said.push('forgotten'));
  scope.atEnd(() => said.push('stopped'));
  forgotten();
  scope.end();
  resolve();
  await Promise.all(trapped);
  expect(ends).toEqual(['inner', 'outer']);
  expect(said).toEqual(['waits', 'waits', 'stopped', 'closed']);
  expect(() => scope.guard(1)).toThrow(WebAssembly.RuntimeError);
});
