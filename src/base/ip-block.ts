import type { BlockList } from 'node:net';

export interface IpAddress {
  readonly text: string;
  readonly family: 'ipv4' | 'ipv6';
}

/** Block of addresses of one family, so that `::/0` does not include IPv4. */
export interface IpBlock {
  readonly family: IpAddress['family'];
  readonly list: BlockList;
}

/**
 * Parses and normalizes an address; null: not an address. An IPv4 address inside an IPv6 address (mapped, or translated
 * by NAT64) becomes the IPv4 address, because packets go there.
 */
export function parseAddress(text: string): IpAddress | null {
  const address = text.split('%', 1)[0] ?? '';
  if (net().isIPv4(address)) return { text: address, family: 'ipv4' };
  if (!net().isIPv6(address)) return null;
  const plain = plainSpelling(address);
  const inner = translated().check(plain, 'ipv6') ? plainSpelling(asMapped(plain)) : plain;
  const mapped = /^::ffff:([\d.]+)$/.exec(inner)?.[1];
  return mapped === undefined ? { text: plain, family: 'ipv6' } : { text: mapped, family: 'ipv4' };
}

/** Parses `10.0.0.0/8`, `fc00::/7`, or one address. */
export function parseBlock(text: string): IpBlock | null {
  const [spelled = '', prefix, ...more] = text.split('/');
  const address = parseAddress(spelled);
  if (address === null || more.length > 0) return null;
  const bits = bitsOf(address.family);
  // A prefix of an IPv6 spelling counts the bits in front of the IPv4 address too.
  const bitsInFront = bitsOf(spelled.includes(':') ? 'ipv6' : 'ipv4') - bits;
  const prefixBits = prefix === undefined ? bits : /^\d{1,3}$/.test(prefix) ? Number(prefix) - bitsInFront : -1;
  if (prefixBits < 0 || prefixBits > bits) return null;
  const list = new (net().BlockList)();
  list.addSubnet(address.text, prefixBits, address.family);
  return { family: address.family, list };
}

export function isInBlock({ text, family }: IpAddress, block: IpBlock): boolean {
  return family === block.family && block.list.check(text, family);
}

/** Loaded on demand: most runs have no address, and loading node:net delays every start. */
const net = () => process.getBuiltinModule('node:net');

let nat64: BlockList | null = null;
function translated(): BlockList {
  if (nat64 === null) {
    nat64 = new (net().BlockList)();
    nat64.addSubnet('64:ff9b::', 96, 'ipv6');
  }
  return nat64;
}

const bitsOf = (family: IpAddress['family']) => (family === 'ipv4' ? 32 : 128);

/** Normalized spelling: zeros as `::`, a mapped address with dots. */
function plainSpelling(address: string): string {
  return new (net().SocketAddress)({ address, family: 'ipv6' }).address;
}

/** `64:ff9b::7f00:1` as `::ffff:7f00:1`; zeros in front of the last group are part of its `::`. */
function asMapped(plain: string): string {
  const groups = (plain.split('::')[1] ?? '').split(':').filter((group) => group !== '');
  return `::ffff:${['0', '0', ...groups].slice(-2).join(':')}`;
}
