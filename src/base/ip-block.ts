import { isIPv4, isIPv6 } from 'node:net';

/** An address as its bytes: 4 or 16 of them. */
export type AddressBytes = readonly number[];

export interface IpBlock {
  readonly bytes: AddressBytes;
  readonly prefixBits: number;
}

const BYTE_BITS = 8;

/**
 * The bytes of an address in its usual spelling, or null. An IPv4 address inside an IPv6 one (mapped, or translated by
 * NAT64) is the IPv4 address: that is where the packets go.
 */
export function parseAddress(text: string): AddressBytes | null {
  const address = text.split('%', 1)[0] ?? '';
  if (isIPv4(address)) return address.split('.').map(Number);
  return isIPv6(address) ? unwrap(expand(address)) : null;
}

/** `10.0.0.0/8`, `fc00::/7`, or one address. */
export function parseBlock(text: string): IpBlock | null {
  const [address = '', prefix, ...more] = text.split('/');
  const bytes = parseAddress(address);
  if (bytes === null || more.length > 0) return null;
  const bits = bytes.length * BYTE_BITS;
  if (prefix === undefined) return { bytes, prefixBits: bits };
  if (!/^\d{1,3}$/.test(prefix)) return null;
  // A prefix of an IPv6 spelling counts the bits in front of the IPv4 address too.
  const spelledBits = address.includes(':') ? 128 : 32;
  const prefixBits = Number(prefix) - (spelledBits - bits);
  return prefixBits < 0 || prefixBits > bits ? null : { bytes, prefixBits };
}

export function isInBlock(address: AddressBytes, { bytes, prefixBits }: IpBlock): boolean {
  if (address.length !== bytes.length) return false;
  for (let bit = 0; bit < prefixBits; bit += BYTE_BITS) {
    const shift = Math.max(0, BYTE_BITS - (prefixBits - bit));
    const index = bit / BYTE_BITS;
    if ((address[index] as number) >> shift !== (bytes[index] as number) >> shift) return false;
  }
  return true;
}

function expand(text: string): number[] {
  const [head = '', tail] = text.split('::');
  const left = groups(head);
  if (tail === undefined) return left;
  const right = groups(tail);
  return [...left, ...Array.from({ length: 16 - left.length - right.length }, () => 0), ...right];
}

function groups(text: string): number[] {
  return text
    .split(':')
    .filter((group) => group !== '')
    .flatMap((group) => {
      if (group.includes('.')) return group.split('.').map(Number);
      const value = Number.parseInt(group, 16);
      return [value >> BYTE_BITS, value & 0xff];
    });
}

const MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
const TRANSLATED = [0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0];

function unwrap(bytes: number[]): number[] {
  const holdsIpv4 = [MAPPED, TRANSLATED].some((prefix) => prefix.every((byte, index) => bytes[index] === byte));
  return holdsIpv4 ? bytes.slice(12) : bytes;
}
