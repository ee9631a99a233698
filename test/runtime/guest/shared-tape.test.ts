import { expect, it } from 'vitest';
import { SharedTape } from '../../../src/runtime/guest/shared-tape.ts';
import { MAX_OWED, MAX_UNDERWAY } from '../../../src/runtime/port/guest-spec.ts';

function post(tape: SharedTape, chars: number): void {
  tape.waitFor(chars);
  tape.add(chars);
}

it('a tape that the host does not take makes its guest wait at its turn, until enough of it was taken', async () => {
  const tape = new SharedTape();
  post(tape, MAX_UNDERWAY);
  expect(tape.room()).toBeNull();
  post(tape, 2);
  const waits = tape.room();
  expect(waits).toBeInstanceOf(Promise);
  tape.taken(1);
  expect(tape.room()).toBe(waits);
  tape.taken(1);
  await waits;
  expect(tape.room()).toBeNull();
});

it('a guest that cannot be made to wait traps before its tape fills the memory of the host', () => {
  const tape = new SharedTape();
  post(tape, MAX_UNDERWAY + MAX_OWED);
  expect(() => post(tape, 1)).toThrow('faster than its journal is written');
});

it('nothing waits for a tape that is closed', async () => {
  const tape = new SharedTape();
  post(tape, MAX_UNDERWAY + 1);
  const waits = tape.room();
  tape.close();
  await waits;
});
