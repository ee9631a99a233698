import { expect, it } from 'vitest';
import { PeerGate } from '../../../src/server/http/peer-gate.ts';
import { PeerRates } from '../../../src/server/http/peer-rates.ts';

it('lets a peer do a second’s worth at once, then so much a second, each by itself', () => {
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

it('lets an offence be paid back within two seconds, however many there were', () => {
  let now = 0;
  const rates = new PeerRates(10, () => now);
  for (let count = 0; count < 100; count++) rates.charge('a', 10);
  now += 1_000;
  expect(rates.isSpent('a')).toBe(true);
  now += 200;
  expect(rates.isSpent('a')).toBe(false);
});

it('closes the door to a peer that asked too much, and to nobody else', () => {
  const gate = new PeerGate({ connectionsPerSecond: 100, asksPerSecond: 5 });
  const cut: string[] = [];
  gate.onCutOff((peer) => cut.push(peer));
  while (gate.mayAsk('a'));
  expect(cut).toEqual(['a']);
  expect([gate.mayConnect('a'), gate.mayConnect('b')]).toEqual([false, true]);
  gate.offended('b');
  expect([cut, gate.mayConnect('b')]).toEqual([['a', 'b'], false]);
});
