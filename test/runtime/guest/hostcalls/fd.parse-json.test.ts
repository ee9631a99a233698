import { describe, expect, it } from 'vitest';
import { MAX_JSON_DEPTH, parseGuestJson } from '../../../../src/runtime/guest/hostcalls/fd.ts';
import { newSession, SET_PARAM, send } from '../../../support/chat-calls.ts';
import { useGuests } from '../../../support/use-guest.ts';

const openGuest = useGuests();
const nested = (depth: number) => `${'['.repeat(depth)}${']'.repeat(depth)}`;

describe('JSON that a guest wrote', () => {
  it('is a value, or nothing', () => {
    expect(parseGuestJson('{"a":[1,null]}')).toEqual({ a: [1, null] });
    for (const text of ['', '{', 'undefined', "{'a':1}", '{"a":1}x', '\ufeff{}', 'NaN'])
      expect(parseGuestJson(text)).toBeUndefined();
  });

  it(`may be nested ${MAX_JSON_DEPTH} deep and no deeper`, () => {
    expect(parseGuestJson(nested(MAX_JSON_DEPTH))).toBeDefined();
    expect(parseGuestJson(nested(MAX_JSON_DEPTH + 1))).toBeUndefined();
    expect(parseGuestJson(nested(100_000))).toBeUndefined();
    expect(parseGuestJson('{"a":'.repeat(MAX_JSON_DEPTH + 1) + 1 + '}'.repeat(MAX_JSON_DEPTH + 1))).toBeUndefined();
  });

  it('is not deep because of what its texts say, or of how much there is side by side', () => {
    const text = `${'[{'.repeat(1000)}\\"\\\\${'{'.repeat(10)}`;
    expect(parseGuestJson(JSON.stringify([text]))).toEqual([text]);
    expect(parseGuestJson(`["\\\\",${nested(10)}]`)).toEqual(['\\', JSON.parse(nested(10))]);
    expect(parseGuestJson(`[${Array(1000).fill('[[]]').join(',')}]`)).toHaveLength(1000);
  });

  it('is refused by the calls when it is too deep, and what is not goes all the way', async () => {
    const guest = await openGuest();
    const fd = await newSession(guest);
    const param = (depth: number) =>
      guest.call('cchat_ctl', fd, SET_PARAM, ...guest.heap.arg(`{"key":"deep","value":${nested(depth)}}`));
    expect(await param(MAX_JSON_DEPTH)).toBe(-5);
    expect(await param(MAX_JSON_DEPTH - 1)).toBe(0);
    const tool = (depth: number) =>
      guest.call('cchat_write_fn', fd, -1, ...guest.text(`{"name":"sum","parameters":${nested(depth)}}`));
    expect(await tool(MAX_JSON_DEPTH)).toBe(-22);
    expect(await tool(MAX_JSON_DEPTH - 1)).toBe(0);
    await send(guest, fd);
    expect(JSON.stringify(guest.backend.requests[0]?.deep)).toBe(nested(MAX_JSON_DEPTH - 1));
  });
});
