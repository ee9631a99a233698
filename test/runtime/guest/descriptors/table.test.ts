import { describe, expect, it } from 'vitest';
import { fail } from '../../../../src/runtime/abi/errno.ts';
import { Epoll, RECORD_BYTES } from '../../../../src/runtime/guest/descriptors/epoll.ts';
import { ERR, HUP, IN, OUT, pollNames, WaitPoint } from '../../../../src/runtime/guest/descriptors/readiness.ts';
import { FdEntry, FdTable, PendingEntry } from '../../../../src/runtime/guest/descriptors/table.ts';

class FakeEntry extends FdEntry {
  readonly kind = 'ChatSession';
  ready = 0;
  released = 0;

  readiness(): number {
    return this.ready;
  }

  release(): void {
    this.released++;
  }
}

class FakePending extends PendingEntry {
  readonly kind = 'McpCall';
}

describe('the table of descriptors', () => {
  it('releases an entry once, when it is closed', () => {
    const table = new FdTable(10);
    const entry = new FakeEntry();
    const fd = table.open(entry) as number;
    expect(table.get(fd)).toBe(entry);
    expect([table.close(fd), table.close(fd)]).toEqual([0, 0]);
    expect(entry.released).toBe(1);
    expect(table.get(fd)).toBeUndefined();
    expect(table.close(fd + 1)).toBe(fail.EBADF);
  });

  it('counts what is open, in all and by kind', () => {
    const table = new FdTable(3);
    const first = table.open(new FakeEntry()) as number;
    table.open(new FakeEntry());
    table.open(new Epoll());
    expect([table.size, table.count('ChatSession'), table.count('Epoll'), table.count('McpCall')]).toEqual([
      3, 2, 1, 0,
    ]);
    expect(table.full).toBe(true);
    expect(table.open(new FakeEntry())).toBe(fail.EMFILE);
    table.close(first);
    table.close(first);
    expect([table.size, table.count('ChatSession'), table.full]).toEqual([2, 1, false]);
  });

  it('closes everything at the end', () => {
    const table = new FdTable(10);
    const entries = [new FakeEntry(), new FakeEntry(), new FakeEntry()];
    for (const entry of entries) table.open(entry);
    table.closeAll();
    expect(entries.map(({ released }) => released)).toEqual([1, 1, 1]);
    expect(table.size).toBe(0);
  });

  it('tells no set of what it cannot hold, or at the end: many sets close as fast as few', () => {
    let told = 0;
    class CountingSet extends Epoll {
      override forget(fd: number): void {
        told++;
        super.forget(fd);
      }
    }
    const table = new FdTable(1000);
    const fds = Array.from({ length: 100 }, () => table.open(new CountingSet()) as number);
    table.close(fds[0] as number);
    expect(told).toBe(0);
    table.close(table.open(new FakeEntry()) as number);
    expect(told).toBe(99);
    table.open(new FakeEntry());
    table.closeAll();
    expect([told, table.size]).toEqual([99, 0]);
  });
});

describe('a set of descriptors', () => {
  it('reports what holds now of what was asked for, by ascending fd', () => {
    const table = new FdTable(10);
    const entries = [new FakeEntry(), new FakeEntry(), new FakeEntry()];
    const fds = entries.map((entry) => table.open(entry) as number);
    const set = new Epoll();
    table.open(set);
    const ready = (most = 10) => {
      const bytes = Buffer.from(set.ready(most));
      return Array.from({ length: bytes.byteLength / RECORD_BYTES }, (_, at) => [
        bytes.readInt32LE(at * RECORD_BYTES),
        bytes.readInt32LE(at * RECORD_BYTES + 4),
      ]);
    };
    for (const at of [2, 1, 0]) set.set(fds[at] as number, entries[at] as FakeEntry, IN);
    expect(ready()).toEqual([]);
    for (const entry of entries) entry.ready = IN | OUT;
    expect(ready()).toEqual(fds.map((fd) => [fd, IN]));
    expect(ready(2)).toEqual(fds.slice(0, 2).map((fd) => [fd, IN]));
    (entries[1] as FakeEntry).ready = ERR;
    (entries[2] as FakeEntry).ready = 0;
    expect(ready()).toEqual([
      [fds[0], IN],
      [fds[1], ERR],
    ]);
    set.set(fds[0] as number, entries[0] as FakeEntry, OUT);
    expect(ready(1)).toEqual([[fds[0], OUT]]);
    set.delete(fds[0] as number);
    table.close(fds[1] as number);
    expect(ready()).toEqual([]);
  });
});

describe('something pending', () => {
  it('becomes done once, or canceled once', () => {
    let canceled = 0;
    const entry = new FakePending(() => canceled++);
    expect([entry.pending, entry.body(), entry.metrics(), entry.readiness()]).toEqual([
      true,
      fail.EAGAIN,
      fail.EAGAIN,
      0,
    ]);
    entry.complete(Uint8Array.of(1), '{"a":1}');
    entry.complete(Uint8Array.of(2), '{}');
    entry.cancel();
    entry.release();
    expect([entry.pending, entry.body(), entry.metrics(), entry.readiness()]).toEqual([
      false,
      Uint8Array.of(1),
      '{"a":1}',
      IN,
    ]);
    expect(canceled).toBe(0);
  });

  it('counts its answer in bytes of UTF-8, text or not, until it is closed', () => {
    const count = { answerBytes: 0 };
    const [text, bytes] = [new FakePending(() => {}), new FakePending(() => {})];
    text.complete('ä€𝄞', '{}', count);
    expect([count.answerBytes, text.body()]).toEqual([9, 'ä€𝄞']);
    bytes.complete(Uint8Array.of(1, 2), '{}', count);
    text.release();
    text.release();
    expect(count.answerBytes).toBe(2);
    bytes.release();
    expect(count.answerBytes).toBe(0);
  });

  it('stays canceled, whatever comes later', () => {
    let canceled = 0;
    const entry = new FakePending(() => canceled++);
    entry.cancel();
    entry.cancel();
    entry.release();
    entry.complete(Uint8Array.of(1), '{}');
    expect([entry.pending, entry.body(), entry.readiness()]).toEqual([false, fail.ECANCELED, ERR | HUP]);
    expect(canceled).toBe(1);
  });
});

describe('where a guest waits', () => {
  it('wakes at a change, and says when it begins to wait and when that is over', async () => {
    let marks = 0;
    const wait = new WaitPoint(() => {
      marks += 1;
    });
    const first = wait.changed();
    wait.notify();
    await first;
    const second = wait.changed();
    wait.notify();
    wait.notify();
    await second;
    expect(marks).toBe(4);
  });

  it('names the bits of a mask as Linux does', () => {
    expect(pollNames(0)).toEqual([]);
    expect(pollNames(IN | OUT | ERR | HUP)).toEqual(['EPOLLIN', 'EPOLLOUT', 'EPOLLERR', 'EPOLLHUP']);
  });
});
