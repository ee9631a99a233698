import { describe, expect, it } from 'vitest';
import { checkParam, numberParams } from '../../../src/runtime/abi/chat-params.ts';
import { HAND_BACK, newSession, recv, send, setParam } from '../../support/chat-calls.ts';
import { useGuests } from '../../support/use-guest.ts';

const openGuest = useGuests();

describe('numbers', () => {
  it('have the defaults and bounds of the ABI [params.numbers]', () => {
    expect(numberParams).toMatchObject({
      timeout_ms: { default: 600_000 },
      max_iterations: { default: 8, max: 128 },
      max_total_tool_calls: { default: 32, max: 10_000 },
      max_tool_output_bytes: { default: 65_536, max: 10 * 1024 * 1024 },
    });
  });

  it.each(Object.entries(numberParams))('%s is whole and positive, and bounded [params.numbers]', (key, { max }) => {
    expect(checkParam(key, 1)).toEqual({ key, value: 1 });
    expect(checkParam(key, max)).toEqual({ key, value: max });
    expect(checkParam(key, max + 1)).toEqual({ key, value: max });
    for (const bad of [0, -1, 1.5, '1', null, true, [1]]) expect(checkParam(key, bad)).toBe('EINVAL');
  });

  it('max_tool_calls is another name of max_total_tool_calls [params.numbers]', () => {
    expect(checkParam('max_tool_calls', 5)).toEqual({ key: 'max_total_tool_calls', value: 5 });
  });
});

describe('texts and choices', () => {
  it.each(['model', 'backend'])('%s is a text [params.texts]', (key) => {
    expect(checkParam(key, 'large')).toEqual({ key, value: 'large' });
    for (const bad of ['', 1, null, {}]) expect(checkParam(key, bad)).toBe('EINVAL');
  });

  it('tool_choice is a text or an object [params.texts]', () => {
    expect(checkParam('tool_choice', 'auto')).toEqual({ key: 'tool_choice', value: 'auto' });
    for (const bad of [1, null, true, []]) expect(checkParam('tool_choice', bad)).toBe('EINVAL');
  });

  it('messages and tools are not parameters [params.texts]', () => {
    expect([checkParam('messages', []), checkParam('tools', [])]).toEqual(['EACCES', 'EACCES']);
  });
});

describe('a send', () => {
  it('forwards what is not ours as it is, the last value of a key [params.forwarded]', async () => {
    const guest = await openGuest();
    const fd = await newSession(guest);
    const format = { type: 'json_schema', json_schema: { name: 'x', schema: { '2': 1, '10': 2 } } };
    for (const value of [1, 0.2]) expect(await setParam(guest, fd, 'temperature', value)).toBe(0);
    expect(await setParam(guest, fd, 'response_format', format)).toBe(0);
    expect(await setParam(guest, fd, 'user', null)).toBe(0);
    const inherited = ['__proto__', 'constructor', 'toString', 'hasOwnProperty'];
    for (const key of inherited) expect(await setParam(guest, fd, key, { polluted: true })).toBe(0);
    await send(guest, fd);
    const request = guest.backend.requests[0] ?? {};
    expect(request).toMatchObject({ temperature: 0.2, response_format: format, user: null });
    for (const key of inherited) expect(Object.hasOwn(request, key)).toBe(true);
    expect('polluted' in {}).toBe(false);
  });

  it('keeps what steers the host to itself [params.forwarded]', async () => {
    const guest = await openGuest();
    const fd = await newSession(guest);
    for (const key of Object.keys(numberParams)) expect(await setParam(guest, fd, key, 5000)).toBe(0);
    await setParam(guest, fd, 'backend', 'other');
    await setParam(guest, fd, 'tool_choice', 'none');
    await setParam(guest, fd, 'tool_arena_ptr', 1024);
    await setParam(guest, fd, 'mcp.server_ids', []);
    await send(guest, fd);
    expect(Object.keys(guest.backend.requests[0] ?? {}).sort()).toEqual(['messages', 'model']);
  });

  it('ends with timeout_ms', async () => {
    const guest = await openGuest();
    const fd = await newSession(guest);
    await setParam(guest, fd, 'timeout_ms', 20);
    guest.backend.hold();
    expect(await recv(guest, await send(guest, fd, HAND_BACK))).toBe(
      '{"error":{"code":"timeout","message":"the send took longer than timeout_ms = 20","retryable":true}}',
    );
  });
});
