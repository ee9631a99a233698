import { describe, expect, it } from 'vitest';
import { compileLimits } from '../../../src/runtime/port/limits.ts';
import { guestNotices, toolsOutOfReach } from '../../../src/runtime/wasm/guest-notices.ts';
import { prepare } from '../../../src/runtime/wasm/prepare.ts';
import { fixtureBytes } from '../../support/run-fixture.ts';
import { withoutTable } from '../../support/without-table.ts';

const prepared = async (bytes: Uint8Array | Promise<Uint8Array>) =>
  prepare(await bytes, { limits: compileLimits({}), allowUnknownImports: false });

describe('tools are out of reach', () => {
  it.each(['c/sum.wasm', 'assemblyscript/sum.wasm'])(
    'where the table of %s was not exported [tool.unreachable]',
    async (path) => {
      const guest = await prepared(withoutTable(await fixtureBytes(path)));
      expect(toolsOutOfReach(guest)).toBe(true);
      expect(guestNotices(guest, ['guest'])).toEqual([
        'the tools of this guest will fail: the module exports no function table, through which the host calls tools; link it with --export-table (asc: --exportTable)',
      ]);
    },
  );

  it.each([
    ['that exports its table', fixtureBytes('c/sum.wasm')],
    ['that answers handed-back calls', fixtureBytes('rust/sum.wasm')],
    ['that answers handed-back calls, in C', fixtureBytes('c/handback.wasm').then(withoutTable)],
    ['without tools', fixtureBytes('c/chat.wasm').then(withoutTable)],
    ['that is a component', fixtureBytes('c/sum.component.wasm')],
  ])('in no guest %s [tool.unreachable]', async (_which, bytes) => {
    expect(toolsOutOfReach(await prepared(bytes))).toBe(false);
  });
});

describe('arguments', () => {
  it.each(['c/hello.wasm', 'assemblyscript/sum.wasm', 'rust/hello.wasm', 'rust/hello.component.wasm'])(
    'that %s cannot see are said [guests.arguments]',
    async (path) => {
      const guest = await prepared(fixtureBytes(path));
      const why = 'the module imports neither args_get of WASI nor wasi:cli/environment';
      expect(guestNotices(guest, ['guest', 'a'])).toEqual([`the guest cannot read its argument: ${why}`]);
      expect(guestNotices(guest, ['guest', 'a', 'b'])).toEqual([`the guest cannot read its 2 arguments: ${why}`]);
      expect(guestNotices(guest, ['guest'])).toEqual([]);
    },
  );

  it.each(['c/chat.wasm', 'assemblyscript/chat.wasm', 'assemblyscript/chat.component.wasm'])(
    'that %s can see are not [guests.arguments]',
    async (path) => {
      expect(guestNotices(await prepared(fixtureBytes(path)), ['guest', 'a'])).toEqual([]);
    },
  );
});
