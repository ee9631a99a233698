import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import type { buildConnector } from 'undici';
import type { EgressDenied, EgressRules } from './egress.ts';

export type Lookup = (
  hostname: string,
  options: LookupOptions & { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

type Connector = ReturnType<typeof buildConnector>;

/**
 * Opens connections that the rules allow. A name is looked up once: only the addresses that were checked are handed to
 * the socket, so that a second answer of the name server cannot lead elsewhere; and what the socket says it is
 * connected to is checked before anything is sent over it. Every connection of the client is made here, that of a
 * redirect included.
 */
export function guardedConnector(
  rules: EgressRules,
  build: typeof buildConnector,
  options: { readonly timeout: number; readonly lookup?: Lookup },
): Connector {
  const { timeout, lookup = systemLookup } = options;
  const connect = build({ timeout, lookup: checkedLookup(rules, lookup) });
  return (target, callback) => {
    const host = target.hostname;
    const literal = host.replace(/^\[(.*)\]$/, '$1');
    const denial = rules.hostDenial(host) ?? (isIP(literal) === 0 ? null : rules.addressDenial(host, literal));
    if (denial !== null) {
      callback(denial, null);
      return;
    }
    connect(target, (...[error, socket]) => {
      if (error !== null) {
        callback(error, null);
        return;
      }
      const late = rules.addressDenial(host, socket.remoteAddress ?? '');
      if (late === null) {
        callback(null, socket);
        return;
      }
      socket.destroy();
      callback(late, null);
    });
  };
}

/** Gives out only what may be connected to; where that is nothing, the reason is the error. */
export function checkedLookup(rules: EgressRules, lookup: Lookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) {
        callback(error, []);
        return;
      }
      let denial: EgressDenied | null = null;
      const allowed = addresses.filter(({ address }) => {
        const why = rules.addressDenial(hostname, address);
        denial ??= why;
        return why === null;
      });
      const [first] = allowed;
      if (first === undefined) callback(denial ?? notFound(hostname), []);
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    });
  };
}

function notFound(hostname: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${hostname} did not resolve to an address`), { code: 'ENOTFOUND' });
}
