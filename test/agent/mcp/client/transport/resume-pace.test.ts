import { expect, it } from 'vitest';
import {
  MAX_EMPTY_STREAMS,
  MIN_DELAY_MS,
  ResumePace,
} from '../../../../../src/agent/mcp/client/transport/resume-pace.ts';

const delays = (pace: ResumePace, wanted: number | null, count: number) =>
  Array.from({ length: count }, () => pace.nextMs(wanted));

it('a server that wants to be asked at once is asked ever less often, down to once a second', () => {
  expect(delays(new ResumePace(), 0, 8)).toEqual([100, 150, 225, 337.5, 506.25, 759.375, 1_000, 1_000]);
});

it('a server that wants a pause gets it, within reason', () => {
  expect(delays(new ResumePace(), 5_000, 20)).toEqual(Array.from({ length: 20 }, () => 5_000));
  expect(delays(new ResumePace(), null, 2)).toEqual([1_000, 1_000]);
  expect(new ResumePace().nextMs(2 ** 40)).toBe(600_000);
});

it('a stream that brought something starts over, one that never does is given up', () => {
  const pace = new ResumePace();
  delays(pace, 0, 5);
  pace.reset();
  expect(pace.nextMs(0)).toBe(MIN_DELAY_MS);
  delays(pace, 0, MAX_EMPTY_STREAMS - 1);
  expect(pace.nextMs(0)).toBeNull();
});
