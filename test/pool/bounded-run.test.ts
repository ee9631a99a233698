import { expect, it, vi } from 'vitest';
import { runBounded, wasStopped } from '../../src/pool/bounded-run.ts';

const spin = (ms: number) => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};

it('stops work that takes too long, and does not begin it again [pool.validation.bounded]', () => {
  let begun = 0;
  const work = () => {
    begun++;
    spin(10_000);
  };
  const cpu = vi.spyOn(process, 'threadCpuUsage').mockReturnValue({ user: 100_000, system: 0 });
  try {
    expect(() => runBounded(work, 50)).toThrow(expect.objectContaining({ code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' }));
  } finally {
    cpu.mockRestore();
  }
  expect(begun).toBe(1);
});

it('begins work again that hardly got a processor, and gives up after a few tries [pool.validation.bounded]', () => {
  // A machine that gives the thread no time cannot be made; what it reports of the processor can.
  const cpu = vi.spyOn(process, 'threadCpuUsage').mockReturnValue({ user: 0, system: 0 });
  try {
    let begun = 0;
    const slowOnce = () => {
      if (begun++ === 0) spin(10_000);
      return 'done';
    };
    expect(runBounded(slowOnce, 50)).toBe('done');
    let never = 0;
    const slow = () => {
      never++;
      spin(10_000);
    };
    expect(() => runBounded(slow, 20)).toThrow(expect.objectContaining({ code: 'ERR_SCRIPT_EXECUTION_TIMEOUT' }));
    expect(never).toBe(5);
  } finally {
    cpu.mockRestore();
  }
});

it('passes on what the work throws [pool.validation.bounded]', () => {
  const thrown = new Error('its own');
  expect(() =>
    runBounded(() => {
      throw thrown;
    }, 1000),
  ).toThrow(thrown);
  expect(wasStopped(thrown)).toBe(false);
});
