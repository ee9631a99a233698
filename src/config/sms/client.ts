import { basename, dirname, isAbsolute } from 'node:path';
import { errorCode } from '../../base/error-text.ts';
import { ConfigError } from '../config-error.ts';
import { readTextFile } from '../config-file.ts';
import { isLoopbackHost } from './address.ts';
import { isServing, readEndpointFile, sameLoopbackPort } from './endpoint.ts';
import { SOCKET_SCHEME } from './local-socket.ts';
import { defaultSmsDirectory, type SmsFiles, smsFiles } from './paths.ts';
import { fixedToken, noToken, type ReadToken, tokenOfFile, tokenOfOwnRegistry } from './token.ts';

/** How to reach a registry, and as whom. */
export interface SmsEndpoint {
  /** `http://` or `https://`. For gRPC too: there it says whether TLS is spoken. */
  readonly url: string;
  /** Where it is reached instead of the host of the url, in a directory of this user alone; null: over the network. */
  readonly socket: string | null;
  /** As people write it. */
  readonly address: string;
  readonly token: ReadToken;
  /** Certificates to trust instead of the system's, as PEM text. */
  readonly ca: string | null;
  /** What the user should know about this way of talking to it; null: nothing. */
  readonly warning: string | null;
}

/** A registry, and others that have the same records: who does not answer is left for the next one. */
export interface SmsEndpoints extends SmsEndpoint {
  readonly others: readonly SmsEndpoint[];
}

export interface SmsEndpointOptions {
  readonly sms?: string | undefined;
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  readonly ca?: string | undefined;
}

/** What whoever gave the options calls them; for messages. */
export type SmsEndpointWords = Readonly<Record<'sms' | 'tokenFile' | 'ca', string>>;

const optionWords: SmsEndpointWords = { sms: 'sms', tokenFile: 'tokenFile', ca: 'ca' };

/** The HTTP side, with the admin's token: for `spear`. */
export function findSmsAdmin(options: SmsEndpointOptions, env: NodeJS.ProcessEnv, words = optionWords): SmsEndpoints {
  return find(options, env, words, { protocol: 'http', variable: 'SPEAR_SMS', tokenFile: 'adminToken' });
}

/** The gRPC side, with the node's token: for whoever runs guests. */
export function findSmsNode(options: SmsEndpointOptions, env: NodeJS.ProcessEnv, words = optionWords): SmsEndpoints {
  return find(options, env, words, { protocol: 'grpc', variable: 'SPEAR_SMS_GRPC', tokenFile: 'nodeToken' });
}

/** Whether the registry of this user serves on this machine. */
export function isOwnSmsServing(env: NodeJS.ProcessEnv): boolean {
  const directory = defaultSmsDirectory(env);
  const endpoint = directory === null ? null : readEndpointFile(smsFiles(directory).endpoint);
  return endpoint !== null && isServing(endpoint);
}

const MAX_REGISTRIES = 32;

interface Side {
  readonly protocol: 'http' | 'grpc';
  readonly variable: string;
  readonly tokenFile: 'adminToken' | 'nodeToken';
}

/** Addresses are separated by commas. */
function find(options: SmsEndpointOptions, env: NodeJS.ProcessEnv, words: SmsEndpointWords, side: Side): SmsEndpoints {
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
  options: SmsEndpointOptions,
  from: string,
  env: NodeJS.ProcessEnv,
  words: SmsEndpointWords,
  side: Side,
): SmsEndpoint {
  const directory = defaultSmsDirectory(env);
  const own = directory === null ? null : smsFiles(directory);
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
  const url = smsUrl(given, from);
  const isLocal = isLoopbackHost(new URL(url).hostname.replace(/^\[|\]$/g, ''));
  if (url.startsWith('https:')) {
    // The token of this machine's registry is for this machine: another host would learn it by being asked.
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
export function unprintedWarning({ warning }: Pick<SmsEndpoint, 'warning'>, env: NodeJS.ProcessEnv): string | null {
  return env[PRINTED_VARIABLE] === warning ? null : warning;
}

/** The same for a command, which prints it now: commands that it starts do not repeat it. */
export function takeWarning(endpoint: Pick<SmsEndpoint, 'warning'>, env: NodeJS.ProcessEnv): string | null {
  const warning = unprintedWarning(endpoint, env);
  if (warning !== null) env[PRINTED_VARIABLE] = warning;
  return warning;
}

function isOwnAddress(own: SmsFiles, side: Side, url: string): boolean {
  const endpoint = readEndpointFile(own.endpoint);
  return endpoint !== null && isServing(endpoint) && sameLoopbackPort(endpoint[side.protocol], url);
}

function atSocket(files: SmsFiles, side: Side, token: ReadToken | null): SmsEndpoint {
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

/** The files of the registry whose socket was named: its tokens lie beside the directory of its sockets. */
function filesOfSocket(given: string, from: string): SmsFiles {
  const path = given.slice(SOCKET_SCHEME.length);
  const files = smsFiles(dirname(dirname(path)));
  if (!isAbsolute(path) || basename(path) === '') {
    throw new ConfigError(`${from}: expected ${SOCKET_SCHEME}/PATH of a socket, found "${given}"`);
  }
  return { ...files, grpcSocket: path, httpSocket: path };
}

/** A bare HOST:PORT speaks in clear on this machine and by TLS everywhere else: a token goes with every request. */
export function smsUrl(text: string, from: string): string {
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
  // A port that is the scheme's own is left out by the parser, so a change of scheme must not lose it.
  const port = parsed.port === '' && withScheme === null ? /:(\d+)$/.exec(text)?.[1] : parsed.port;
  return `${scheme}//${parsed.hostname}${port ? `:${port}` : ''}`;
}

function givenToken(options: SmsEndpointOptions, env: NodeJS.ProcessEnv, words: SmsEndpointWords): ReadToken | null {
  if (options.token !== undefined) return fixedToken(options.token);
  if (options.tokenFile !== undefined) return tokenOfFile(options.tokenFile, words.tokenFile);
  if (env.SPEAR_SMS_TOKEN) return fixedToken(env.SPEAR_SMS_TOKEN);
  return env.SPEAR_SMS_TOKEN_FILE ? tokenOfFile(env.SPEAR_SMS_TOKEN_FILE, 'SPEAR_SMS_TOKEN_FILE') : null;
}

/** PEM text. @throws ConfigError */
export function readCa(path: string, from: string): string {
  try {
    return readTextFile(path);
  } catch (error) {
    throw new ConfigError(`${from}: ${path} cannot be read (${errorCode(error) ?? String(error)})`);
  }
}
