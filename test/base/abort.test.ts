import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { abortWith, untilAborted } from '../../src/base/abort.ts';

const forever = new Promise<never>(() => {});

describe('waiting until a signal aborts', () => {
  it('settles as the work does, and leaves no listener behind', async () => {
    const { signal } = new AbortController();
    expect(await untilAborted(Promise.resolve(1), signal)).toBe(1);
    await expect(untilAborted(Promise.reject(new Error('work')), signal)).rejects.toThrow('work');
    expect(await untilAborted(Promise.resolve(2), null)).toBe(2);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('throws the reason of the abort, before and during the work', async () => {
    const controller = new AbortController();
    const waiting = untilAborted(forever, controller.signal);
    controller.abort(new Error('no more'));
    await expect(waiting).rejects.toThrow('no more');
    await expect(untilAborted(forever, controller.signal)).rejects.toThrow('no more');
  });

  it('gives something else instead, or throws something else', async () => {
    const signal = AbortSignal.abort();
    expect(await untilAborted<string>(forever, signal, () => 'instead')).toBe('instead');
    const other = () => {
      throw new Error('other');
    };
    await expect(untilAborted(forever, signal, other)).rejects.toThrow('other');
  });

  it('does not let work that fails afterwards end the process', async () => {
    const late = Promise.withResolvers<never>();
    await expect(untilAborted(late.promise, AbortSignal.abort(new Error('gone')))).rejects.toThrow('gone');
    late.reject(new Error('late'));
    await new Promise(setImmediate);
  });
});

describe('a controller that follows a signal', () => {
  it('aborts with it, with its reason or another one, also when that has happened already', () => {
    const outer = new AbortController();
    const inner = new AbortController();
    abortWith(inner, outer.signal);
    outer.abort('why');
    expect(inner.signal.reason).toBe('why');
    const late = new AbortController();
    abortWith(late, outer.signal, () => 'another');
    expect(late.signal.reason).toBe('another');
  });

  it('no longer follows after it was let go, and follows nothing where there is no signal', () => {
    const outer = new AbortController();
    const inner = new AbortController();
    abortWith(inner, outer.signal)();
    abortWith(inner, null)();
    outer.abort();
    expect(inner.signal.aborted).toBe(false);
    expect(getEventListeners(outer.signal, 'abort')).toEqual([]);
  });
});
