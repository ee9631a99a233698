import { type IpAddress, type IpBlock, isInBlock, parseBlock } from '../../base/ip-block.ts';

/** What an address is, where it is not one of the public internet. */
export type AddressKind = 'loopback' | 'private' | 'link-local' | 'shared' | 'multicast' | 'unspecified' | 'reserved';

const blocks: readonly (readonly [AddressKind, readonly string[]])[] = [
  ['unspecified', ['0.0.0.0/8', '::/128']],
  ['loopback', ['127.0.0.0/8', '::1/128']],
  ['private', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', 'fec0::/10']],
  ['link-local', ['169.254.0.0/16', 'fe80::/10']],
  ['shared', ['100.64.0.0/10']],
  ['multicast', ['224.0.0.0/4', 'ff00::/8']],
  [
    'reserved',
    [
      '192.0.0.0/24',
      '192.0.2.0/24',
      '192.88.99.0/24',
      '198.18.0.0/15',
      '198.51.100.0/24',
      '203.0.113.0/24',
      '240.0.0.0/4',
      // Teredo, documentation, 6to4: what lies behind them is an IPv4 address that somebody else's relay chooses.
      '2001::/23',
      '2001:db8::/32',
      '2002::/16',
      '3fff::/20',
    ],
  ],
];

const kinds: readonly (readonly [AddressKind, IpBlock])[] = blocks.flatMap(([kind, texts]) =>
  texts.map((text) => [kind, parseBlock(text) as IpBlock] as const),
);

const GLOBAL_UNICAST = parseBlock('2000::/3') as IpBlock;

/** Null: a public address. Of IPv6 only what is handed out for it counts as public. */
export function specialKind(address: IpAddress): AddressKind | null {
  const found = kinds.find(([, block]) => isInBlock(address, block));
  if (found !== undefined) return found[0];
  return address.family === 'ipv6' && !isInBlock(address, GLOBAL_UNICAST) ? 'reserved' : null;
}
