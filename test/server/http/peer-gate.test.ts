import { expect, it } from 'vitest';
import { PeerGate, PeerRates } from '../../../src/server/http/peer-gate.ts';

it('allows each peer a burst of one second, then the rate', () => {
  let now = 0;
  const rates = new PeerRates(10, () => now);
  const spent = (peer: string) => Array.from({ length: 20 }, () => rates.spend(peer)).filter(Boolean).length;
  expect([spent('a'), spent('b')]).toEqual([10, 10]);
  expect([rates.isSpent('a'), rates.isSpent('c')]).toEqual([true, false]);
  now += 500;
  expect(spent('a')).toBe(5);
  now += 60_000;
  expect(spent('a')).toBe(10);
});

it('limits the debt of a peer to two seconds', () => {
  let now = 0;
  const rates = new PeerRates(10, () => now);
  for (let count = 0; count < 100; count++) rates.charge('a', 10);
  now += 1_000;
  expect(rates.isSpent('a')).toBe(true);
  now += 200;
  expect(rates.isSpent('a')).toBe(false);
});

it('blocks only the peer that exceeds its rate', () => {
  const gate = new PeerGate({ connectionsPerSecond: 100, requestsPerSecond: 5 });
  const cut: string[] = [];
  gate.onBlock((peer) => cut.push(peer));
  while (gate.mayRequest('a'));
  expect(cut).toEqual(['a']);
  expect([gate.mayConnect('a'), gate.mayConnect('b')]).toEqual([false, true]);
  gate.block('b');
  expect([cut, gate.mayConnect('b')]).toEqual([['a', 'b'], false]);
});
