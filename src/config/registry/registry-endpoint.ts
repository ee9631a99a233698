import { readFileSync } from 'node:fs';
import { basename, dirname, isAbsolute } from 'node:path';
import { errorCode } from '../../base/errors.ts';
import { Secret } from '../../server/secrets/secret.ts';
import { readSecretFile, SecretFileError } from '../../server/secrets/secret-file.ts';
import { isLoopbackHost } from '../address.ts';
import { ConfigError } from '../config-error.ts';
import { readTextFile } from '../config-file.ts';
import { defaultRegistryDirectory, filesOfRegistry, type RegistryFiles } from '../directories.ts';
import { SOCKET_SCHEME } from '../local-socket.ts';

/*
 * Addresses and tokens of registries for clients: options and SPEAR_SMS* variables, else the registry of this user on this
 * machine, through its socket. Invariants: a token of this machine's registry is never sent to another host; an unencrypted
 * or unauthenticated connection has a warning. Nothing here connects; failover over `others` is registry-client's task.
 */

/** Address of a registry and the token for it. */
export interface RegistryEndpoint {
  /** `http://` or `https://`; for gRPC the scheme decides about TLS. */
  readonly url: string;
  /** Unix socket to connect to instead of the host of the url, in a directory of this user; null: use the network. */
  readonly socket: string | null;
  /** Address as users write it. */
  readonly address: string;
  readonly token: ReadToken;
  /** Certificates to trust instead of the system's, as PEM text. */
  readonly ca: string | null;
  /** Warning about the security of the connection; null: none. */
  readonly warning: string | null;
}

/** A registry and its alternatives with the same records, for failover. */
export interface RegistryEndpoints extends RegistryEndpoint {
  readonly others: readonly RegistryEndpoint[];
}

export interface RegistryEndpointOptions {
  readonly sms?: string | undefined;
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly ca?: string | undefined;
}

/** Names of the options in messages, such as the flags of a command. */
export type RegistryEndpointWords = Readonly<Record<'sms' | 'tokenFile' | 'ca', string>>;

const optionWords: RegistryEndpointWords = { sms: 'sms', tokenFile: 'tokenFile', ca: 'ca' };

/** HTTP endpoint with the admin token, for `spear`. */
export function findRegistryAdmin(
  options: RegistryEndpointOptions,
  env: NodeJS.ProcessEnv,
  words = optionWords,
): RegistryEndpoints {
  return find(options, env, words, { protocol: 'http', variable: 'SPEAR_SMS', tokenFile: 'adminToken' });
}

/** gRPC endpoint with the node token, for processes that run guests. */
export function findRegistryForNode(
  options: RegistryEndpointOptions,
  env: NodeJS.ProcessEnv,
  words = optionWords,
): RegistryEndpoints {
  return find(options, env, words, { protocol: 'grpc', variable: 'SPEAR_SMS_GRPC', tokenFile: 'nodeToken' });
}

/** Whether the registry of this user is running on this machine. */
export function isOwnRegistryServing(env: NodeJS.ProcessEnv): boolean {
  const directory = defaultRegistryDirectory(env);
  const endpoint = directory === null ? null : readEndpointFile(filesOfRegistry(directory).endpoint);
  return endpoint !== null && isServing(endpoint);
}

const MAX_REGISTRIES = 32;

interface Side {
  readonly protocol: 'http' | 'grpc';
  readonly variable: string;
  readonly tokenFile: 'adminToken' | 'nodeToken';
}

/** Resolves comma-separated addresses. */
function find(
  options: RegistryEndpointOptions,
  env: NodeJS.ProcessEnv,
  words: RegistryEndpointWords,
  side: Side,
): RegistryEndpoints {
  const [given, ...more] = (options.sms ?? env[side.variable] ?? '').split(',').map((address) => address.trim());
  const from = options.sms === undefined ? side.variable : words.sms;
  if (more.some((address) => address === '') || (given === '' && more.length > 0)) {
    throw new ConfigError(`${from}: expected comma-separated addresses, found an empty address`);
  }
  if (more.length >= MAX_REGISTRIES)
    throw new ConfigError(`${from}: at most ${MAX_REGISTRIES} addresses are supported`);
  const one = (address: string | undefined) => findOne({ ...options, sms: address }, from, env, words, side);
  const first = one(given || options.sms);
  const others = more.map(one);
  const all = [first, ...others];
  const warnings = all.flatMap(({ warning }) => (warning === null ? [] : [warning]));
  return {
    ...first,
    address: all.map(({ address }) => address).join(','),
    warning: warnings.length === 0 ? null : [...new Set(warnings)].join('\n'),
    others,
  };
}

function findOne(
  options: RegistryEndpointOptions,
  from: string,
  env: NodeJS.ProcessEnv,
  words: RegistryEndpointWords,
  side: Side,
): RegistryEndpoint {
  const directory = defaultRegistryDirectory(env);
  const own = directory === null ? null : filesOfRegistry(directory);
  const given = options.sms;
  const token = givenToken(options, env, words);
  const ca = options.ca === undefined ? null : readCa(options.ca, words.ca);
  if (given === undefined) {
    if (own === null)
      throw new ConfigError(
        `${words.sms}: no registry is named, and there is no default: neither XDG_STATE_HOME nor HOME is set`,
      );
    return atSocket(own, side, token);
  }
  if (given.startsWith(SOCKET_SCHEME)) return atSocket(filesOfSocket(given, from), side, token);
  const url = serverUrl(given, from);
  const isLocal = isLoopbackHost(new URL(url).hostname.replace(/^\[|\]$/g, ''));
  if (url.startsWith('https:')) {
    // The token of this machine's registry is never sent to another host.
    const ownToken = isLocal && own !== null ? tokenOfOwnRegistry(own[side.tokenFile]) : noToken;
    return { url, socket: null, address: url, token: token ?? ownToken, ca, warning: null };
  }
  const isBare = !given.includes('://');
  if (isLocal && own !== null && (isOwnAddress(own, side, url) || (isBare && token === null))) {
    return atSocket(own, side, token);
  }
  return { url, socket: null, address: url, token: token ?? noToken, ca, warning: warningOf(url, isLocal, from) };
}

/** Risk of sending a token over a connection that does not authenticate the registry. */
function warningOf(url: string, isLocal: boolean, from: string): string {
  return isLocal
    ? `warning: ${from} ${url} is not authenticated: any local user can listen on this port while the registry is down; ` +
        `use its socket (${SOCKET_SCHEME}…/sockets/…) or https://`
    : `warning: ${from} ${url} is not encrypted: others on the network can read the token and change data; use https://`;
}

const PRINTED_VARIABLE = 'SPEAR_SMS_WARNING_PRINTED';

/** The warning of an endpoint, unless a command that started this process has printed it. */
export function unprintedWarning(
  { warning }: Pick<RegistryEndpoint, 'warning'>,
  env: NodeJS.ProcessEnv,
): string | null {
  return env[PRINTED_VARIABLE] === warning ? null : warning;
}

/** The warning for a command that prints it now; commands that it starts do not print it again. */
export function takeWarning(endpoint: Pick<RegistryEndpoint, 'warning'>, env: NodeJS.ProcessEnv): string | null {
  const warning = unprintedWarning(endpoint, env);
  if (warning !== null) env[PRINTED_VARIABLE] = warning;
  return warning;
}

function isOwnAddress(own: RegistryFiles, side: Side, url: string): boolean {
  const endpoint = readEndpointFile(own.endpoint);
  return endpoint !== null && isServing(endpoint) && sameLoopbackPort(endpoint[side.protocol], url);
}

function atSocket(files: RegistryFiles, side: Side, token: ReadToken | null): RegistryEndpoint {
  const socket = side.protocol === 'http' ? files.httpSocket : files.grpcSocket;
  return {
    url: 'http://localhost',
    socket,
    address: SOCKET_SCHEME + socket,
    token: token ?? tokenOfOwnRegistry(files[side.tokenFile]),
    ca: null,
    warning: null,
  };
}

/** Files of the registry that owns a socket: its tokens are in the parent of the socket directory. */
function filesOfSocket(given: string, from: string): RegistryFiles {
  const path = given.slice(SOCKET_SCHEME.length);
  const files = filesOfRegistry(dirname(dirname(path)));
  if (!isAbsolute(path) || basename(path) === '') {
    throw new ConfigError(`${from}: expected ${SOCKET_SCHEME}/PATH of a socket, found "${given}"`);
  }
  return { ...files, grpcSocket: path, httpSocket: path };
}

/** Adds the scheme to HOST:PORT: http on loopback, https elsewhere, because every request carries a token. */
export function serverUrl(text: string, from: string): string {
  const withScheme = /^[a-z]+:\/\//i.test(text) ? text : null;
  const parsed = URL.parse(withScheme ?? `http://${text}`);
  if (parsed === null || parsed.hostname === '' || !/^https?:$/.test(parsed.protocol)) {
    throw new ConfigError(`${from}: expected HOST:PORT, http://…, https://… or unix:/PATH, found "${text}"`);
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw new ConfigError(`${from}: a url must not contain a credential; use a token`);
  }
  const host = parsed.hostname.replace(/^\[|\]$/g, '');
  const scheme = withScheme !== null ? parsed.protocol : isLoopbackHost(host) ? 'http:' : 'https:';
  // The parser drops the default port of http; with another scheme that port must stay.
  const port = parsed.port === '' && withScheme === null ? /:(\d+)$/.exec(text)?.[1] : parsed.port;
  return `${scheme}//${parsed.hostname}${port ? `:${port}` : ''}`;
}

function givenToken(
  options: RegistryEndpointOptions,
  env: NodeJS.ProcessEnv,
  words: RegistryEndpointWords,
): ReadToken | null {
  if (options.token !== undefined) return fixedToken(options.token);
  if (options.tokenFile !== undefined) return tokenOfFile(options.tokenFile, words.tokenFile);
  if (env.SPEAR_SMS_TOKEN) return fixedToken(env.SPEAR_SMS_TOKEN);
  return env.SPEAR_SMS_TOKEN_FILE ? tokenOfFile(env.SPEAR_SMS_TOKEN_FILE, 'SPEAR_SMS_TOKEN_FILE') : null;
}

/** Reads PEM text. @throws ConfigError */
export function readCa(path: string, from: string): string {
  try {
    return readTextFile(path);
  } catch (error) {
    throw new ConfigError(`${from}: ${path} cannot be read (${errorCode(error) ?? String(error)})`);
  }
}

/** File that a running registry writes beside its data. A hint about its addresses, not a proof of identity. */
export interface EndpointFile {
  readonly grpc: string;
  readonly http: string;
  readonly pid: number;
}

/** Null: missing or unreadable. */
export function readEndpointFile(path: string): EndpointFile | null {
  try {
    const { grpc, http, pid } = JSON.parse(readFileSync(path, 'utf8')) as Partial<EndpointFile>;
    if (typeof grpc !== 'string' || typeof http !== 'string' || typeof pid !== 'number') return null;
    return { grpc, http, pid };
  } catch {
    return null;
  }
}

/** Whether the process that wrote the file is running. A killed process leaves its file behind. */
export function isServing({ pid }: EndpointFile): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    // Also if the pid now belongs to a process of another user.
    return false;
  }
}

/** Whether both URLs are the same port of this machine. */
export function sameLoopbackPort(a: string, b: string): boolean {
  const [one, other] = [URL.parse(a), URL.parse(b)];
  if (one === null || other === null || one.port !== other.port) return false;
  return [one, other].every(({ hostname }) => isLoopbackHost(hostname.replace(/^\[|\]$/g, '')));
}

/** Returns the current token, read at every use so that a replaced file needs no restart; null: no token. */
export type ReadToken = () => Secret | null;

export const noToken: ReadToken = () => null;

export function fixedToken(text: string): ReadToken {
  const secret = new Secret(text);
  return () => secret;
}

/** Token in a file that must be readable now. If the file becomes unreadable, the last token remains in use. */
export function tokenOfFile(path: string, from: string): ReadToken {
  let last = readTokenFile(path, from);
  return () => {
    try {
      last = readTokenFile(path, from);
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
    }
    return last;
  };
}

/** Token of this user's registry; its file may not exist yet. */
export function tokenOfOwnRegistry(path: string): ReadToken {
  let last: Secret | null = null;
  return () => {
    try {
      last = new Secret(firstLine(readSecretFile(path)));
    } catch (error) {
      if (error instanceof SecretFileError) throw new ConfigError(error.message);
    }
    return last;
  };
}

function readTokenFile(path: string, from: string): Secret {
  try {
    return new Secret(firstLine(readSecretFile(path)));
  } catch (error) {
    if (error instanceof SecretFileError) throw new ConfigError(`${from}: ${error.message}`);
    throw new ConfigError(`${from}: ${path} cannot be read (${errorCode(error) ?? String(error)})`);
  }
}

/** First line of a token file. The registry accepts every line; clients use the first. */
function firstLine(text: string): string {
  return text.trim().split('\n', 1)[0]?.trim() ?? '';
}
