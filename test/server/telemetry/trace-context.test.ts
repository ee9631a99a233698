import { describe, expect, it } from 'vitest';
import { isSampled } from '../../../src/server/telemetry/span.ts';
import { parseTraceparent, traceOfRun, traceparentOf } from '../../../src/server/telemetry/trace-context.ts';

const ids = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };
const text = `${ids.traceId}-${ids.spanId}`;

describe('a traceparent', () => {
  it('is read and written', () => {
    expect(parseTraceparent(`00-${text}-01`)).toEqual({ ...ids, isSampled: true });
    expect(parseTraceparent(` 00-${text}-00 `)).toEqual({ ...ids, isSampled: false });
    expect(parseTraceparent(`cc-${text}-03-what-a-later-version-says`)).toEqual({ ...ids, isSampled: true });
    expect(traceparentOf({ ...ids, isSampled: true })).toBe(`00-${text}-01`);
  });

  it.each([
    undefined,
    null,
    '',
    ['00', '01'],
    `00-${text}`,
    `00-${text}-01-more`,
    `ff-${text}-01`,
    `00-${text.toUpperCase()}-01`,
    `00-${'0'.repeat(32)}-${ids.spanId}-01`,
    `00-${ids.traceId}-${'0'.repeat(16)}-01`,
    `00-${text}-01\r\nx: y`,
  ])('is invalid: %j', (given) => {
    expect(parseTraceparent(given)).toBeNull();
  });
});

describe('the trace of a run', () => {
  it('is derived from the run id alone', () => {
    expect(traceOfRun('run-1')).toEqual(traceOfRun('run-1'));
    expect(traceOfRun('run-1')).not.toEqual(traceOfRun('run-2'));
    expect(parseTraceparent(traceparentOf({ ...traceOfRun('run-1'), isSampled: true }))).not.toBeNull();
  });

  it('is exported by ratio, unless its parent decides [telemetry.sampling]', () => {
    const traces = Array.from({ length: 2_000 }, (_, index) => traceOfRun(String(index)).traceId);
    const sent = (ratio: number) => traces.filter((id) => isSampled({ followsParent: true, ratio }, id, null)).length;
    expect([sent(0), sent(1)]).toEqual([0, 2_000]);
    expect(sent(0.1)).toBeGreaterThan(100);
    expect(sent(0.1)).toBeLessThan(300);
    const parent = { ...ids, isSampled: true };
    expect(isSampled({ followsParent: true, ratio: 0 }, ids.traceId, parent)).toBe(true);
    expect(isSampled({ followsParent: false, ratio: 0 }, ids.traceId, parent)).toBe(false);
  });
});
