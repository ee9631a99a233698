import { describe, expect, it, onTestFinished, vi } from 'vitest';
import type { ScriptTurn } from '../../../../src/agent/chat/backends/script-schema.ts';
import { GuestMemory } from '../../../../src/runtime/abi/memory.ts';
import { CoreToolRunner, functionTable } from '../../../../src/runtime/guest/core/tool-runner.ts';
import { AUTO_TOOL_CALL, answer, newSession, setArena, writeTool } from '../../../support/chat-calls.ts';
import { slot } from '../../../support/forwarder.ts';
import type { TestGuest, ToolHandler } from '../../../support/test-guest.ts';
import { useGuests } from '../../../support/use-guest.ts';
import { i32Const, type ValueType, WasmModule } from '../../../support/wasm-encoder.ts';

const openGuest = useGuests();
const turns: readonly ScriptTurn[] = [
  { when: { role: 'user' }, reply: { tool_calls: [{ id: 'a', name: 'tool', arguments: {} }] } },
  { reply: { content: 'done' } },
];

/** What the model receives for a tool in this slot; the loop must continue to its answer. */
async function outcome(guest: TestGuest, index: number): Promise<unknown> {
  const fd = await newSession(guest);
  await setArena(guest, fd, 1024);
  expect(await writeTool(guest, fd, 'tool', index)).toBe(0);
  expect(await answer(guest, fd, AUTO_TOOL_CALL)).toBe('done');
  return guest.backend.requests[1]?.messages.at(-1)?.content;
}

const failed = (rc: number) => `{"error":{"code":"tool_exec_failed","message":"tool rc: ${rc}"}}`;
const EIO = -5;
const because = (why: string) => `{"error":{"code":"tool_exec_failed","message":"tool rc: ${EIO} (${why})"}}`;
const noFunction = (index: number) =>
  because(`slot ${index} of the function table holds no function of four parameters`);
const noCallback = because('it was registered without a callback, to be handed back');

describe('a tool that fails does not end the loop', () => {
  it.each([-5, 1, 2_147_483_647, -2_147_483_648])('when it returns %i [tool.failure]', async (rc) => {
    const guest = await openGuest({ turns });
    expect(
      await outcome(
        guest,
        guest.tool(() => rc),
      ),
    ).toBe(failed(rc));
  });

  it('when it traps [tool.failure]', async () => {
    expect(await outcome(await openGuest({ turns }), slot.trap)).toBe(failed(EIO));
  });

  it.each([
    ['an empty slot', slot.empty, noFunction(slot.empty)],
    ['a slot beyond the table', slot.length, noFunction(slot.length)],
    ['the largest slot', 2_147_483_647, noFunction(2_147_483_647)],
    ['no slot', -1, noCallback],
    ['the smallest number', -2_147_483_648, noCallback],
  ])('when its index is %s, and the model gets that error [tool.failure]', async (_which, index, told) => {
    expect(await outcome(await openGuest({ turns }), index)).toBe(told);
  });

  it.each([
    ['without a result', slot.noResult],
    ['of other types', slot.otherTypes],
  ])('when its index is a function %s [tool.failure]', async (_which, index) => {
    expect(await outcome(await openGuest({ turns }), index)).toBe(failed(EIO));
  });

  it('when its index is a function of other parameters, which is not entered [tool.failure]', async () => {
    const guest = await openGuest({ turns });
    expect(await outcome(guest, slot.noParameters)).toBe(noFunction(slot.noParameters));
    expect(guest.calledWithAnotherType).toBe(false);
  });

  it('when its index is an import of ours: the call is made, and its errno is the rc [tool.failure]', async () => {
    expect(await outcome(await openGuest({ turns }), slot.importedEpollWait)).toBe(failed(-9));
  });

  const answers: readonly [what: string, handler: ToolHandler][] = [
    ['cut-off UTF-8', (call) => call.answer(Buffer.of(0x22, 0xf0, 0x9f, 0x98))],
    ['bytes that are no UTF-8', (call) => call.answer(Buffer.of(0xff, 0xfe))],
    ['an overlong NUL', (call) => call.answer(Buffer.of(0xc0, 0x80))],
    ['a surrogate', (call) => call.answer(Buffer.of(0xed, 0xa0, 0x80))],
  ];
  it.each(answers)('when it answers with %s [tool.failure]', async (_what, handler) => {
    const guest = await openGuest({ turns });
    expect(await outcome(guest, guest.tool(handler))).toBe(failed(EIO));
  });

  it.each([1, 1_000_000])('when it claims %i bytes more than it had room for [tool.failure]', async (more) => {
    const guest = await openGuest({ turns });
    const index = guest.tool((call) => {
      guest.heap.bytes.writeUInt32LE(call.capacity + more, call.outLengthPtr);
      return 0;
    });
    expect(await outcome(guest, index)).toBe(failed(EIO));
  });
});

describe('the answer of a tool', () => {
  it('is taken byte for byte: NUL, a byte order mark and astral characters [tool.output]', async () => {
    const guest = await openGuest({ turns });
    const text = '\ufeffa\0b 🚀 grüße';
    expect(
      await outcome(
        guest,
        guest.tool((call) => call.answer(text)),
      ),
    ).toBe(text);
  });
});

describe('the function table', () => {
  const instance = (build: (module: WasmModule) => void) => {
    const module = new WasmModule();
    build(module);
    return new WebAssembly.Instance(new WebAssembly.Module(module.encode())).exports;
  };

  it('is __indirect_function_table, else table, else the first one [tool.table]', () => {
    const threeTables = (...names: string[]) =>
      instance((module) => {
        for (const [index, name] of names.entries()) module.export(name, 'table', module.table({ min: index + 1 }));
      });
    expect(functionTable(threeTables('a', 'table', '__indirect_function_table'))?.length).toBe(3);
    expect(functionTable(threeTables('a', 'table', 'b'))?.length).toBe(2);
    expect(functionTable(threeTables('a', 'b'))?.length).toBe(1);
  });

  it('is looked at for every call, and a function in it is made suspendable once [tool.table]', async () => {
    const exports = instance((module) => {
      const parameters: ValueType[] = ['i32', 'i32', 'i32', 'i32'];
      const answering = (rc: number) => module.function(parameters, ['i32'], i32Const(rc));
      module.table({ min: 3 });
      module.element(0, [answering(10), answering(11), answering(12)]);
      module.export('table', 'table', 0);
      module.memory({ min: 1 });
      module.export('memory', 'memory', 0);
    });
    const memory = new GuestMemory();
    memory.attach(exports.memory as WebAssembly.Memory);
    const table = functionTable(exports) as WebAssembly.Table;
    const runner = new CoreToolRunner(
      memory,
      table,
      () => false,
      () => {},
    );
    const promising = vi.spyOn(WebAssembly, 'promising');
    onTestFinished(() => promising.mockRestore());
    const rc = async (fnOffset: number) => {
      const request = { callback: 1, fnOffset, args: '{}', maxOutputBytes: 64 };
      return (await runner.run(request, { ptr: 0, length: 1024 })).rc;
    };
    expect([await rc(0), await rc(0), await rc(1), await rc(0)]).toEqual([10, 10, 11, 10]);
    table.set(0, table.get(2));
    expect([await rc(0), await rc(1), await rc(0), await rc(2)]).toEqual([12, 11, 12, 12]);
    expect(promising).toHaveBeenCalledTimes(3);
  });

  it('may be missing, or something else under its name [tool.table]', () => {
    expect(functionTable(instance(() => {}))).toBeUndefined();
    const misnamed = instance((module) => {
      module.export('table', 'memory', module.memory({ min: 1 }));
      module.export('functions', 'table', module.table({ min: 5 }));
    });
    expect(functionTable(misnamed)?.length).toBe(5);
  });
});
