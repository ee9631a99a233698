import { compilePatterns, type NameMatcher } from '../../agent/policy/pattern.ts';
import { type IpBlock, isInBlock, parseAddress, parseBlock } from '../../base/ip-block.ts';
import { addressWords, type CompiledEgress } from '../../config/egress.ts';
import type { ReferencePolicy } from '../secrets/reference-policy.ts';
import { specialKind } from './egress-address.ts';

export interface EgressOptions {
  /**
   * Patterns of the hosts that HTTP servers may be at.
   * @default every host
   */
  readonly allowHosts?: readonly string[];
  /**
   * Addresses that are not public and may be connected to all the same: addresses, blocks, `loopback`, `private`.
   * @default ["loopback"]
   */
  readonly allowAddresses?: readonly string[];
}

/** For records that others write: nothing inside this machine or its network. */
export const REGISTRY_ADDRESSES: readonly string[] = Object.freeze([]);
/** For the user's own records: servers under development run beside them. */
const OWN_ADDRESSES: readonly string[] = Object.freeze(['loopback']);

/** What the config says; where it is silent, what fits the records: a registry's are trusted with less. */
export function egressOf(config: CompiledEgress, records: ReferencePolicy['mode']): EgressOptions {
  const { allowHosts, allowAddresses } = config;
  return {
    ...(allowHosts === null ? {} : { allowHosts }),
    allowAddresses: allowAddresses ?? (records === 'user_owned' ? OWN_ADDRESSES : REGISTRY_ADDRESSES),
  };
}

/** A connection that the node's rules do not allow. Travels through the HTTP client as the cause of its error. */
export class EgressDenied extends Error {
  readonly code = 'EGRESS_DENIED';

  constructor(message: string) {
    super(message);
    this.name = 'EgressDenied';
  }
}

/** Which hosts and addresses HTTP servers may be reached at. */
export class EgressRules {
  readonly #allowsHost: NameMatcher;
  readonly #listed: readonly IpBlock[];

  /** @throws RangeError naming an address that is none */
  constructor({ allowHosts = ['*'], allowAddresses = OWN_ADDRESSES }: EgressOptions = {}) {
    this.#allowsHost = compilePatterns(allowHosts.map((pattern) => pattern.toLowerCase()));
    this.#listed = allowAddresses.flatMap((text) => addressWords[text] ?? [text]).map(toBlock);
  }

  /** Null: allowed. `host` as a URL has it. */
  hostDenial(host: string): EgressDenied | null {
    const name = plainHost(host);
    if (this.#allowsHost(name)) return null;
    return new EgressDenied(`host ${JSON.stringify(name)} is not allowed by this node's config (egress.allow_hosts)`);
  }

  /** Null: allowed. `address` is where the connection really goes. */
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

/** Without the brackets of IPv6 and the dot that ends a full name. */
function plainHost(host: string): string {
  return host
    .toLowerCase()
    .replace(/^\[(.*)\]$/, '$1')
    .replace(/\.$/, '');
}
