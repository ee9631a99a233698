import type { BlockList } from 'node:net';

export interface IpAddress {
  readonly text: string;
  readonly family: 'ipv4' | 'ipv6';
}

/** Addresses of one family: without that, `::/0` would hold all of IPv4 too. */
export interface IpBlock {
  readonly family: IpAddress['family'];
  readonly list: BlockList;
}

/**
 * An address in its usual spelling, or null. An IPv4 address inside an IPv6 one (mapped, or translated by NAT64) is
 * the IPv4 address: that is where the packets go.
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

/** `10.0.0.0/8`, `fc00::/7`, or one address. */
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

/** Loaded with the first address: most runs have none, and it takes longer than a short run has. */
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

/** The one spelling that every way to write the address comes to: zeros as `::`, a mapped address with dots. */
function plainSpelling(address: string): string {
  return new (net().SocketAddress)({ address, family: 'ipv6' }).address;
}

/** `64:ff9b::7f00:1` as `::ffff:7f00:1`; zeros in front of the last group are part of its `::`. */
function asMapped(plain: string): string {
  const groups = (plain.split('::')[1] ?? '').split(':').filter((group) => group !== '');
  return `::ffff:${['0', '0', ...groups].slice(-2).join(':')}`;
}
