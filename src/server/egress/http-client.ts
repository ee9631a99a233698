import { type LookupAddress, type LookupOptions, lookup as systemLookup } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import type { FetchLike } from '@modelcontextprotocol/client';
import type { buildConnector, Dispatcher } from 'undici';
import type { EgressDenied, EgressRules } from './egress.ts';

export interface HttpClient {
  readonly fetch: FetchLike;
  /** The dispatcher of `fetch`, with the same connections and rules. */
  readonly dispatcher: Dispatcher;
  close(): Promise<void>;
}

const CONNECT_TIMEOUT_MS = 30_000;

/**
 * HTTP client for requests to MCP servers, authorization servers and OIDC issuers; the egress rules apply to every
 * connection. undici's own time limits are off: notification streams are silent for hours, and every request has its
 * own deadline. undici is loaded here because that takes 115 ms. Proxies are not supported: the address that a proxy
 * connects to cannot be checked.
 */
export async function createHttpClient(rules: EgressRules): Promise<HttpClient> {
  const { Agent, buildConnector, fetch } = await import('undici');
  const connect = guardedConnector(rules, buildConnector, { timeout: CONNECT_TIMEOUT_MS });
  const dispatcher = new Agent({ bodyTimeout: 0, headersTimeout: 0, connect });
  type UndiciInit = Parameters<typeof fetch>[1];
  return {
    dispatcher,
    // The types of Node's own fetch and of the package differ in name only.
    fetch: (url, init) => fetch(url, { ...(init as UndiciInit), dispatcher }) as unknown as Promise<Response>,
    close: () => dispatcher.destroy(),
  };
}

export type Lookup = (
  hostname: string,
  options: LookupOptions & { all: true },
  callback: (error: NodeJS.ErrnoException | null, addresses: LookupAddress[]) => void,
) => void;

type Connector = ReturnType<typeof buildConnector>;

/**
 * Opens connections that the rules allow; those of redirects included. A name is looked up once, and the socket gets
 * only the checked addresses, so a second DNS response cannot lead elsewhere (DNS rebinding). The remote address of the
 * socket is checked again before anything is sent.
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

/** A lookup that returns only the allowed addresses, or fails with the reason for the denial. */
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
