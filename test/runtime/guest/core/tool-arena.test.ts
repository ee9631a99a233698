import { describe, expect, it } from 'vitest';
import type { ScriptTurn } from '../../../../src/agent/chat/backends/script-schema.ts';
import { AUTO_TOOL_CALL, newSession, send, setArena, setParam, writeTool } from '../../../support/chat-calls.ts';
import type { TestGuest, ToolCall, ToolHandler } from '../../../support/test-guest.ts';
import { useGuests } from '../../../support/use-guest.ts';

const ENOSPC = -28;
const openGuest = useGuests();

/** A model that calls `tool` with these arguments, as they are. */
const calling = (args: string): readonly ScriptTurn[] => [
  { when: { role: 'user' }, reply: { tool_calls: [{ id: 'a', name: 'tool', arguments: args }] } },
  { reply: { content: 'done' } },
];

interface Ran {
  /** Where the arena was. */
  readonly arena: number;
  /** Content that the model received. */
  readonly content: unknown;
  readonly calls: readonly ToolCall[];
}

/** Has the tool called once in an arena of `length` bytes that begins `shift` bytes after a multiple of 8. */
async function runTool(
  guest: TestGuest,
  length: number,
  handler: ToolHandler,
  { shift = 0, maxOutput }: { shift?: number; maxOutput?: number } = {},
): Promise<Ran> {
  const calls: ToolCall[] = [];
  const fd = await newSession(guest);
  const arena = guest.heap.alloc(length + 16) + shift;
  await setArena(guest, fd, length, arena);
  if (maxOutput !== undefined) await setParam(guest, fd, 'max_tool_output_bytes', maxOutput);
  const index = guest.tool((call) => {
    calls.push(call);
    return handler(call);
  });
  await writeTool(guest, fd, 'tool', index);
  await send(guest, fd, AUTO_TOOL_CALL);
  return { arena, content: guest.backend.requests[1]?.messages.at(-1)?.content, calls };
}

const failed = (rc: number) => `{"error":{"code":"tool_exec_failed","message":"tool rc: ${rc}"}}`;

describe('the arena of a callback', () => {
  it.each([0, 1, 3, 4, 7])(
    'begins with the arguments and a NUL, then the out area and its length (shift %i) [arena.layout]',
    async (shift) => {
      const args = '{"x":"ü"}';
      const guest = await openGuest({ turns: calling(args) });
      let nul: number | undefined;
      const { arena, calls, content } = await runTool(
        guest,
        256,
        (call) => {
          nul = guest.heap.bytes[call.argsPtr + call.argsLength];
          return call.answer('"ok"');
        },
        { shift },
      );
      const [call] = calls;
      const out = Math.ceil((arena + Buffer.byteLength(args) + 1) / 8) * 8;
      expect(call).toMatchObject({ args, argsPtr: arena, argsLength: Buffer.byteLength(args), outPtr: out });
      expect(call?.capacity).toBe(arena + 256 - out - 8);
      expect(call?.outLengthPtr).toBeGreaterThanOrEqual(out + (call?.capacity ?? 0));
      expect((call?.outLengthPtr ?? 0) % 4).toBe(0);
      expect((call?.outLengthPtr ?? 0) + 4).toBeLessThanOrEqual(arena + 256);
      expect(nul).toBe(0);
      expect(content).toBe('"ok"');
    },
  );

  it('gives room for max_tool_output_bytes and no more [arena.capacity]', async () => {
    const guest = await openGuest({ turns: calling('{}') });
    const { calls, arena } = await runTool(guest, 4096, (call) => call.answer('x'.repeat(100)), { maxOutput: 100 });
    expect(calls[0]).toMatchObject({ capacity: 100, outPtr: arena + 8, outLengthPtr: arena + 108 });
  });

  it('gives a guest tool at most 1 MiB [arena.capacity]', async () => {
    const guest = await openGuest({ turns: calling('{}'), pages: 64 });
    const { calls } = await runTool(guest, 3 * 1024 * 1024, (call) => call.answer(''), { maxOutput: 10_485_760 });
    expect(calls[0]?.capacity).toBe(1024 * 1024);
  });

  it('is left alone outside of the arguments and the length [arena.layout]', async () => {
    const guest = await openGuest({ turns: calling('{}') });
    let before = Buffer.alloc(0);
    let arenaAt = 0;
    const fd = await newSession(guest);
    arenaAt = await setArena(guest, fd, 64);
    guest.heap.bytes.fill(0xca, arenaAt - 16, arenaAt + 80);
    const index = guest.tool((call) => {
      before = Buffer.from(guest.heap.bytes.subarray(arenaAt - 16, arenaAt + 80));
      return call.answer('');
    });
    await writeTool(guest, fd, 'tool', index);
    await send(guest, fd, AUTO_TOOL_CALL);
    const expected = Buffer.alloc(96, 0xca);
    expected.write('{}\0', 16);
    expected.writeUInt32LE(48, 16 + 8 + 48);
    expect(before).toEqual(expected);
  });

  it('may be just large enough: no room for an answer is room for an empty one [arena.capacity]', async () => {
    const guest = await openGuest({ turns: calling('{}') });
    const { calls, content } = await runTool(guest, 16, (call) => call.answer(''));
    expect(calls[0]?.capacity).toBe(0);
    expect(content).toBe('');
  });

  it.each([15, 8, 3])('of %i bytes is too small for the call [arena.capacity]', async (length) => {
    const guest = await openGuest({ turns: calling('{}') });
    const { calls, content } = await runTool(guest, length, () => 0);
    expect(calls).toEqual([]);
    expect(content).toBe(failed(ENOSPC));
  });

  it('outside of the memory is a failed call [arena.capacity]', async () => {
    const guest = await openGuest({ turns: calling('{}') });
    const fd = await newSession(guest);
    await setArena(guest, fd, 1024, guest.heap.memory.buffer.byteLength - 1000);
    await writeTool(
      guest,
      fd,
      'tool',
      guest.tool(() => 0),
    );
    await send(guest, fd, AUTO_TOOL_CALL);
    expect(guest.backend.requests[1]?.messages.at(-1)?.content).toBe(failed(-14));
  });

  it('that was never set fails the call, with a notice to the user [arena.capacity]', async () => {
    const guest = await openGuest({ turns: calling('{}') });
    const fd = await newSession(guest);
    await writeTool(
      guest,
      fd,
      'tool',
      guest.tool(() => 0),
    );
    await send(guest, fd, AUTO_TOOL_CALL);
    const why = 'tool_arena_ptr and tool_arena_len are not set';
    expect(guest.backend.requests[1]?.messages.at(-1)?.content).toBe(
      `{"error":{"code":"tool_exec_failed","message":"tool rc: ${ENOSPC} (${why})"}}`,
    );
    expect(guest.notices).toEqual([`a guest tool cannot be called: ${why}`]);
  });
});

describe('a callback that needs more room', () => {
  it('is called once more with the size that it asked for [arena.retry]', async () => {
    const guest = await openGuest({ turns: calling('{"a":1}') });
    const text = 'x'.repeat(200);
    const { calls, content } = await runTool(
      guest,
      1024,
      (call) => {
        if (call.capacity >= text.length) return call.answer(text);
        guest.heap.bytes.writeUInt32LE(text.length, call.outLengthPtr);
        return ENOSPC;
      },
      { maxOutput: 64 },
    );
    expect(calls.map(({ capacity, args }) => [capacity, args])).toEqual([
      [64, '{"a":1}'],
      [200, '{"a":1}'],
    ]);
    expect(calls[1]?.outPtr).toBe(calls[0]?.outPtr);
    expect(content).toBe(text);
  });

  it('gets no third sources [arena.retry]', async () => {
    const guest = await openGuest({ turns: calling('{}') });
    const { calls, content } = await runTool(guest, 1024, (call) => {
      guest.heap.bytes.writeUInt32LE(call.capacity - 1, call.outLengthPtr);
      return ENOSPC;
    });
    expect(calls).toHaveLength(2);
    expect(content).toBe(failed(ENOSPC));
  });

  it.each([
    ['more than the arena has', 1024],
    ['more than there can be', 0xffff_ffff],
  ])('and asks for %s gets none [arena.retry]', async (_what, size) => {
    const guest = await openGuest({ turns: calling('{}') });
    const { calls, content } = await runTool(guest, 1024, (call) => {
      guest.heap.bytes.writeUInt32LE(size, call.outLengthPtr);
      return ENOSPC;
    });
    expect(calls).toHaveLength(1);
    expect(content).toBe(failed(ENOSPC));
  });

  it('is not called again when it failed for another reason [arena.retry]', async () => {
    const guest = await openGuest({ turns: calling('{}') });
    const { calls, content } = await runTool(guest, 1024, () => -12);
    expect(calls).toHaveLength(1);
    expect(content).toBe(failed(-12));
  });
});
