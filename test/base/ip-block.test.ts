import { expect, it } from 'vitest';
import { type IpAddress, type IpBlock, isInBlock, parseAddress, parseBlock } from '../../src/base/ip-block.ts';

it.each([
  ['127.0.0.1', '127.0.0.1'],
  ['::FFFF:127.0.0.1', '127.0.0.1'],
  ['0:0:0:0:0:ffff:7f00:1', '127.0.0.1'],
  ['::ffff:0.0.0.0', '0.0.0.0'],
  ['64:ff9b::127.0.0.1', '127.0.0.1'],
  ['64:ff9b::7f00:0', '127.0.0.0'],
  ['64:ff9b::1', '0.0.0.1'],
  ['64:ff9b::', '0.0.0.0'],
  ['64:ff9b:1::7f00:1', '64:ff9b:1::7f00:1'],
  ['::ffff:1:7f00:1', '::ffff:1:7f00:1'],
  ['::127.0.0.1', '::127.0.0.1'],
  ['FE80::1%eth0', 'fe80::1'],
  ['1.2.3', null],
  ['::g', null],
  ['', null],
])('%s is the address %s', (text, address) => {
  expect(parseAddress(text)?.text ?? null).toBe(address);
});

it.each([
  ['10.1.2.3/8', '10.255.0.1', true],
  ['10.0.0.0/8', '11.0.0.1', false],
  ['10.0.0.1', '10.0.0.1', true],
  ['10.0.0.1', '10.0.0.2', false],
  ['10.0.0.0/8', '::ffff:10.0.0.1', true],
  ['64:ff9b::10.0.0.0/104', '10.9.0.1', true],
  ['0.0.0.0/0', '::1', false],
  ['::/0', '10.0.0.1', false],
  ['::/0', '::1', true],
  ['::ffff:0:0/96', '8.8.8.8', true],
])('%s and %s: %s', (block, address, inside) => {
  expect(isInBlock(parseAddress(address) as IpAddress, parseBlock(block) as IpBlock)).toBe(inside);
});
