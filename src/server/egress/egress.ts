import { compilePatterns, type NameMatcher } from '../../agent/policy/pattern.ts';
import { type IpAddress, type IpBlock, isInBlock, parseAddress, parseBlock } from '../../base/ip-block.ts';
import { addressWords, type CompiledEgress } from '../../config/egress.ts';
import type { ReferencePolicy } from '../secrets/references.ts';

export interface EgressOptions {
  /**
   * Patterns of host names that may be connected to.
   * @default every host
   */
  readonly allowHosts?: readonly string[];
  /**
   * Addresses that may be connected to although they are not public: addresses, blocks, `loopback`, `private`.
   * @default ["loopback"]
   */
  readonly allowAddresses?: readonly string[];
}

/** Default for records of a registry, which others write: no address of this machine or its network. */
export const REGISTRY_ADDRESSES: readonly string[] = Object.freeze([]);
/** Default for the user's own records: servers under development run on the same machine. */
const OWN_ADDRESSES: readonly string[] = Object.freeze(['loopback']);

/** The egress options of a config, with defaults that depend on who writes the records. */
export function egressOf(config: CompiledEgress, records: ReferencePolicy['mode']): EgressOptions {
  const { allowHosts, allowAddresses } = config;
  return {
    ...(allowHosts === null ? {} : { allowHosts }),
    allowAddresses: allowAddresses ?? (records === 'user_owned' ? OWN_ADDRESSES : REGISTRY_ADDRESSES),
  };
}

/** A connection that the rules deny. The HTTP client throws an error with this one as its cause. */
export class EgressDenied extends Error {
  readonly code = 'EGRESS_DENIED';

  constructor(message: string) {
    super(message);
    this.name = 'EgressDenied';
  }
}

/** Egress rules: the hosts and addresses that may be connected to. */
export class EgressRules {
  readonly #allowsHost: NameMatcher;
  readonly #listed: readonly IpBlock[];

  /** @throws RangeError naming an invalid address */
  constructor({ allowHosts = ['*'], allowAddresses = OWN_ADDRESSES }: EgressOptions = {}) {
    this.#allowsHost = compilePatterns(allowHosts.map((pattern) => pattern.toLowerCase()));
    this.#listed = allowAddresses.flatMap((text) => addressWords[text] ?? [text]).map(toBlock);
  }

  /** Null: allowed. `host` in the form of a URL. */
  hostDenial(host: string): EgressDenied | null {
    const name = plainHost(host);
    if (this.#allowsHost(name)) return null;
    return new EgressDenied(`host ${JSON.stringify(name)} is not allowed by this node's config (egress.allow_hosts)`);
  }

  /** Null: allowed. `address` is the resolved address of the connection. */
  addressDenial(host: string, address: string): EgressDenied | null {
    const name = plainHost(host);
    const parsed = parseAddress(address);
    if (parsed === null) return new EgressDenied(`host ${JSON.stringify(name)} did not resolve to a valid IP address`);
    const kind = specialKind(parsed);
    if (kind === null || this.#listed.some((block) => isInBlock(parsed, block))) return null;
    const where =
      name === address ? `address ${address}` : `host ${JSON.stringify(name)} resolves to ${address}, which`;
    const article = kind === 'unspecified' ? 'an' : 'a';
    return new EgressDenied(
      `${where} is ${article} ${kind} address that this node may not connect to; to allow it, list it in egress.allow_addresses of the node's config`,
    );
  }
}

function toBlock(text: string): IpBlock {
  const block = parseBlock(text);
  if (block === null)
    throw new RangeError(`egress.allowAddresses: ${JSON.stringify(text)} is neither an IP address nor a CIDR block`);
  return block;
}

/** Without the brackets of IPv6 and the final dot of an absolute name. */
function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
}

/** Class of an address that is not public. */
type AddressKind = 'loopback' | 'private' | 'link-local' | 'shared' | 'multicast' | 'unspecified' | 'reserved';

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
      // Teredo, documentation, 6to4: a relay chooses the IPv4 address behind them.
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

/** Null: a public address. In IPv6 only global unicast (2000::/3) is public. */
export function specialKind(address: IpAddress): AddressKind | null {
  const found = kinds.find(([, block]) => isInBlock(address, block));
  if (found !== undefined) return found[0];
  return address.family === 'ipv6' && !isInBlock(address, GLOBAL_UNICAST) ? 'reserved' : null;
}
