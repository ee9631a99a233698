import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { scriptedBackend } from '../../../src/agent/chat/backends/open-backend.ts';
import { GuestThreads, runGuest } from '../../../src/index.ts';
import { guestModule } from '../../torture/guests/guest-module.ts';
import { HonestGuest } from '../../torture/guests/honest.ts';
import { hostileGuests, hostileTurns } from '../../torture/guests/hostile.ts';

const HOSTILE = 50;
const DEADLINE_MS = 1_000;
const MIB = 1024 * 1024;

/** In the order of the list, again and again; those that need a server or seconds by themselves are not among them. */
const names = Object.keys(hostileGuests).filter((name) => !hostileGuests[name]?.slow && !hostileGuests[name]?.mcp);

it('fifty hostile guests on a thread change nothing of what an honest one gets, and each ends as it would alone [threads.neighbours]', async () => {
  await using threads = new GuestThreads({ threads: 1 });
  const honest = new HonestGuest();
  await honest.start(threads);
  await honest.answered(20);
  const ends = Array.from({ length: HOSTILE }, async (_, index) => {
    const name = names[index % names.length] as string;
    const guest = hostileGuests[name] ?? { run: '', ends: 'exit' as const };
    const backend = await scriptedBackend({ turns: hostileTurns, name: 'script' });
    const result = await runGuest({
      wasm: await guestModule(guest),
      backend,
      threads,
      output: () => {},
      stdin: () => (guest.stdin === 'endless' ? Readable.from(endless()) : null),
      // No guest blocks it for long, also on a busy machine.
      limits: { timeout_ms: DEADLINE_MS, turn_ms: 20_000, memory_bytes: 64 * MIB },
    });
    await backend.close();
    return { name, asItWould: result.reason === guest.ends || result.reason === 'deadline', result };
  });
  const all = await Promise.all(ends);
  expect(all.filter(({ asItWould }) => !asItWould)).toEqual([]);
  const asked = honest.asked;
  await honest.answered(asked + 20);
  expect(honest.wrong).toBe(0);
  expect((await honest.end())?.reason).toBe('interrupted');
}, 120_000);

function* endless() {
  for (;;) yield Buffer.alloc(65_536, 'x');
}
