import { afterEach, describe, expect, it } from 'vitest';
import { type Call, calls } from '../../../../src/runtime/abi/calls.ts';
import { type ErrnoName, errno } from '../../../../src/runtime/abi/errno.ts';
import { hasPointers } from '../../../support/guest-binding.ts';
import { checkDocumented, TestGuest } from '../../../support/test-guest.ts';
import { cchatErrnos } from './errno-cases/cchat.ts';
import { epollErrnos, fdErrnos } from './errno-cases/epoll-and-fd.ts';
import type { ErrnoCase } from './errno-cases/errno-case.ts';
import { faultErrnos } from './errno-cases/faults.ts';
import { mcpPeerErrnos } from './errno-cases/mcp.ts';
import { offerErrnos } from './errno-cases/mcp-offers.ts';
import { streamErrnos } from './errno-cases/streams.ts';
import { audioErrnos, mcpErrnos, systemErrnos } from './errno-cases/without-a-peer.ts';

/** A component has neither pointers nor buffers that could be too small. */
const applies = (name: ErrnoName) => hasPointers() || (name !== 'EFAULT' && name !== 'ENOSPC');

const cases: readonly ErrnoCase[] = [
  ...systemErrnos,
  ...cchatErrnos,
  ...mcpErrnos,
  ...mcpPeerErrnos,
  ...offerErrnos,
  ...epollErrnos,
  ...fdErrnos,
  ...streamErrnos,
  ...audioErrnos,
  ...faultErrnos,
].filter(({ errno: expected }) => applies(expected));

const produced = new Set<string>();
let guest: TestGuest | undefined;
afterEach(async () => {
  await guest?.close();
  guest = undefined;
});

for (const row of calls as readonly Call[]) {
  const own = cases.filter(({ call }) => call === row.name);
  if (own.length === 0) continue;
  describe(row.name, () => {
    for (const { call, errno: expected, when, options, run } of own) {
      it(`${expected}: ${when} [abi.errno]`, async () => {
        guest = await TestGuest.open({ pages: 4, ...options });
        expect(await run(guest)).toBe(-errno[expected]);
        expect(guest.produced).toContain(`${call} ${expected}`);
        produced.add(`${call} ${expected}`);
      });
    }
  });
}

describe('the table of calls', () => {
  it('has no errno that no test produced [abi.errno]', () => {
    const documented = (calls as readonly Call[]).flatMap(({ name, errnos }) =>
      (Object.keys(errnos) as ErrnoName[]).filter(applies).map((key) => `${name} ${key}`),
    );
    expect(documented.filter((pair) => !produced.has(pair))).toEqual([]);
  });

  it('makes a test fail whose call gives an errno that its row does not have [abi.errno.documented]', () => {
    expect(() => checkDocumented('cchat_recv', -errno.EAGAIN)).not.toThrow();
    expect(() => checkDocumented('cchat_recv', -errno.EPERM)).toThrow('cchat_recv gave -1 (EPERM)');
    expect(() => checkDocumented('cchat_recv', -4095)).toThrow('cchat_recv gave -4095');
  });
});
