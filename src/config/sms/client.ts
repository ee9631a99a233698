import { readFileSync } from 'node:fs';
import { errorCode } from '../../base/error-text.ts';
import { Secret } from '../../secrets/secret.ts';
import { readSecretFile, SecretFileError } from '../../secrets/secret-file.ts';
import { ConfigError } from '../config-error.ts';
import { type ReadTextFile, readTextFile } from '../config-file.ts';
import { DEFAULT_GRPC_ADDRESS, DEFAULT_HTTP_ADDRESS, isLoopbackHost } from './address.ts';
import { defaultSmsDirectory, smsFiles } from './paths.ts';

/** How to reach a registry, and as whom. */
export interface SmsEndpoint {
  /** `http://` or `https://`. For gRPC too: there it says whether TLS is spoken. */
  readonly url: string;
  /** Null: none was given and none was found. */
  readonly token: Secret | null;
  /** Certificates to trust instead of the system's, as PEM text. */
  readonly ca: string | null;
}

export interface SmsEndpointOptions {
  readonly sms?: string | undefined;
  readonly token?: string | undefined;
  readonly tokenFile?: string | undefined;
  /** A file of certificates. */
  readonly ca?: string | undefined;
}

/** What whoever gave the options calls them; for messages. */
export type SmsEndpointWords = Readonly<Record<'sms' | 'tokenFile' | 'ca', string>>;

const optionWords: SmsEndpointWords = { sms: 'sms', tokenFile: 'tokenFile', ca: 'ca' };

/** The HTTP side, with the admin's token: for `spear`. */
export function findSmsAdmin(
  options: SmsEndpointOptions,
  env: NodeJS.ProcessEnv,
  words: SmsEndpointWords = optionWords,
): SmsEndpoint {
  return find(options, env, words, {
    protocol: 'http',
    address: env.SPEAR_SMS,
    fallback: DEFAULT_HTTP_ADDRESS,
    tokenFile: 'adminToken',
  });
}

/** The gRPC side, with the node's token: for whoever runs guests. */
export function findSmsNode(
  options: SmsEndpointOptions,
  env: NodeJS.ProcessEnv,
  words: SmsEndpointWords = optionWords,
): SmsEndpoint {
  return find(options, env, words, {
    protocol: 'grpc',
    address: env.SPEAR_SMS_GRPC,
    fallback: DEFAULT_GRPC_ADDRESS,
    tokenFile: 'nodeToken',
  });
}

interface Side {
  readonly protocol: 'http' | 'grpc';
  readonly address: string | undefined;
  readonly fallback: string;
  readonly tokenFile: 'adminToken' | 'nodeToken';
}

function find(options: SmsEndpointOptions, env: NodeJS.ProcessEnv, words: SmsEndpointWords, side: Side): SmsEndpoint {
  const directory = defaultSmsDirectory(env);
  const files = directory === null ? null : smsFiles(directory);
  const given = options.sms ?? (side.address || undefined);
  const local = given === undefined && files !== null ? readEndpointFile(files.endpoint)?.[side.protocol] : undefined;
  const url = smsUrl(given ?? local ?? side.fallback, options.sms === undefined ? 'SPEAR_SMS' : words.sms);
  // The token of this machine's registry is for this machine: another host would learn it by being asked.
  const isLocal = isLoopbackHost(new URL(url).hostname.replace(/^\[|\]$/g, ''));
  return {
    url,
    token: findToken(options, words, env, isLocal ? (files?.[side.tokenFile] ?? null) : null),
    ca: options.ca === undefined ? null : readRequired(options.ca, words.ca),
  };
}

/** A bare HOST:PORT speaks in clear on this machine and by TLS everywhere else: a token goes with every request. */
export function smsUrl(text: string, from: string): string {
  const withScheme = /^[a-z]+:\/\//i.test(text) ? text : null;
  const parsed = URL.parse(withScheme ?? `http://${text}`);
  if (parsed === null || parsed.hostname === '' || !/^https?:$/.test(parsed.protocol)) {
    throw new ConfigError(`${from}: expected HOST:PORT, http://… or https://…, found "${text}"`);
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw new ConfigError(`${from}: a url must not hold a credential; use a token`);
  }
  const host = parsed.hostname.replace(/^\[|\]$/g, '');
  const scheme = withScheme !== null ? parsed.protocol : isLoopbackHost(host) ? 'http:' : 'https:';
  // A port that is the scheme's own is left out by the parser, so a change of scheme must not lose it.
  const port = parsed.port === '' && withScheme === null ? /:(\d+)$/.exec(text)?.[1] : parsed.port;
  return `${scheme}//${parsed.hostname}${port ? `:${port}` : ''}`;
}

export interface EndpointFile {
  readonly grpc: string;
  readonly http: string;
}

/** What a running SMS has written beside its data; null where there is none. */
export function readEndpointFile(path: string): EndpointFile | null {
  try {
    const { grpc, http } = JSON.parse(readFileSync(path, 'utf8')) as Partial<EndpointFile>;
    return typeof grpc === 'string' && typeof http === 'string' ? { grpc, http } : null;
  } catch {
    return null;
  }
}

function findToken(
  { token, tokenFile }: SmsEndpointOptions,
  words: SmsEndpointWords,
  env: NodeJS.ProcessEnv,
  localFile: string | null,
): Secret | null {
  if (token !== undefined) return new Secret(token);
  if (tokenFile !== undefined) return new Secret(readRequired(tokenFile, words.tokenFile, readSecretFile).trim());
  if (env.SPEAR_SMS_TOKEN) return new Secret(env.SPEAR_SMS_TOKEN);
  if (localFile === null) return null;
  try {
    return new Secret(readFileSync(localFile, 'utf8').trim());
  } catch {
    return null;
  }
}

function readRequired(path: string, from: string, read: ReadTextFile = readTextFile): string {
  try {
    return read(path);
  } catch (error) {
    if (error instanceof SecretFileError) throw new ConfigError(`${from}: ${error.message}`);
    const code = errorCode(error) ?? String(error);
    throw new ConfigError(`${from}: ${path} cannot be read (${code})`);
  }
}
