import { looksLikeCredential } from '../../../server/records/credentials.ts';
import { headerValueProblem, urlProblem } from '../../../server/records/field-rules.ts';
import type { McpOAuth, McpServerRecord } from '../../../server/records/server.ts';
import { knownSecrets, MIN_SECRET_CHARS, type Redact } from '../../../server/secrets/redactor.ts';
import {
  parseAuthRef,
  type ReferenceLookup,
  referenceTo,
  resolveReferences,
} from '../../../server/secrets/references.ts';
import type { SecretSource } from '../../../server/secrets/secret-file.ts';
import { McpConnectionError } from './errors.ts';
import type { HttpTarget } from './transport/transport.ts';

/** A record with its references resolved. Lives as long as the attempt or the connection, and is never logged. */
export interface ResolvedRecord {
  readonly env: Readonly<Record<string, string>>;
  readonly http: HttpTarget | null;
  /** Credentials of the client at the authorization server. */
  readonly clientProof: ClientProof;
  readonly redact: Redact;
  /** For results of tools. */
  readonly redactContent: Redact;
}

/** Secrets that `http.oauth` of a record references. */
export interface ClientProof {
  readonly secret: string | null;
  /** PEM. */
  readonly privateKey: string | null;
}

const authScheme = /^[A-Za-z][A-Za-z0-9-]* +\S/;
/** Variables without secrets on any system. Redacting a home directory in every path would make results useless. */
const plainSettings =
  /^(?:HOME|PATH|PWD|USER|LOGNAME|USERNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|TMPDIR|HOSTNAME|XDG_[A-Z_]+)$/;

/** @throws McpConnectionError with `env_missing` or `env_refused`, naming the field and the variable, never a value */
export async function resolveRecord(record: McpServerRecord, source: SecretSource): Promise<ResolvedRecord> {
  const resolver = new Resolver(record.server_id, source);
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(record.stdio?.env ?? {})) {
    const { secrets, defaults } = resolver;
    const [known, taken] = [secrets.length, defaults.count];
    const resolved = resolver.resolve(`stdio.env.${name}`, value);
    env[name] = resolved;
    if (secrets.length > known || looksLikeCredential(name, value)) secrets.push(resolved);
    else if (defaults.count > taken) resolver.ordinary.push(resolved);
  }
  const http = record.http === null ? null : await resolver.target(record.http);
  const clientProof = await resolver.clientProof(record.http?.oauth ?? null);
  const { secrets, ordinary } = resolver;
  for (const secret of secrets) knownSecrets.addOfRecord(secret);
  const all = [...secrets, ...ordinary];
  return {
    env,
    http,
    clientProof,
    redact: knownSecrets.scoped(all),
    redactContent: knownSecrets.scoped(all, MIN_SECRET_CHARS),
  };
}

class Resolver {
  /** Redacted everywhere in this process. */
  readonly secrets: string[] = [];
  /** Redacted only in this server's messages and results: literal headers and defaults. */
  readonly ordinary: string[] = [];
  /** References to unset variables. */
  readonly defaults = { count: 0 };
  readonly #serverId: string;
  readonly #source: SecretSource;
  readonly #lookup: ReferenceLookup;

  constructor(serverId: string, source: SecretSource) {
    this.#serverId = serverId;
    this.#source = source;
    this.#lookup = {
      allows: (name) => source.variables.allows(name),
      get: (name) => {
        const value = source.variables.get(name);
        if (value === undefined) this.defaults.count += 1;
        else if (!plainSettings.test(name)) this.secrets.push(value);
        return value;
      },
    };
  }

  resolve(field: string, value: string): string {
    const resolved = resolveReferences(value, this.#lookup);
    if (typeof resolved === 'string') return resolved;
    if ('missing' in resolved) throw this.#missing(`${field} refers to ${resolved.missing}, which is not set`);
    throw this.#refused(`${field} refers to ${resolved.refused}, which this node does not allow servers to use`);
  }

  async target(http: NonNullable<McpServerRecord['http']>): Promise<HttpTarget> {
    const text = this.resolve('http.url', http.url);
    const problem = urlProblem(text);
    if (problem !== null || !URL.canParse(text)) throw this.#invalid(`http.url ${problem ?? 'is not a valid url'}`);
    const url = new URL(text);
    this.#addQuerySecrets(url);
    const headers: Record<string, string> = { ...this.#moveCredentials(url) };
    for (const [name, value] of Object.entries(http.headers)) {
      if (name.toLowerCase() === 'authorization') delete headers.authorization;
      const known = this.secrets.length;
      const resolved = this.#header(`http.headers.${name}`, this.resolve(`http.headers.${name}`, value));
      const secret = this.secrets.length > known || looksLikeCredential(name, value);
      (secret ? this.secrets : this.ordinary).push(resolved, withoutScheme(resolved));
      headers[name] = resolved;
    }
    if (http.auth_ref === null) return { url, headers };
    for (const name of Object.keys(headers)) if (name.toLowerCase() === 'authorization') delete headers[name];
    const secret = (await this.#referredSecret('http.auth_ref', http.auth_ref)).trim();
    const authorization = authScheme.test(secret) ? secret : `Bearer ${secret}`;
    this.secrets.push(secret, withoutScheme(authorization));
    return { url, headers: { ...headers, authorization: this.#header('http.auth_ref', authorization) } };
  }

  async clientProof(oauth: McpOAuth | null): Promise<ClientProof> {
    const read = async (field: 'client_secret' | 'private_key'): Promise<string | null> => {
      const reference = oauth?.[field] ?? null;
      if (reference === null) return null;
      const name = `http.oauth.${field}`;
      const secret = (await this.#referredSecret(name, reference)).trim();
      if (secret === '') throw this.#missing(`${name} refers to an empty value`);
      this.secrets.push(secret);
      return secret;
    };
    return { secret: await read('client_secret'), privateKey: await read('private_key') };
  }

  #addQuerySecrets(url: URL): void {
    if (url.search === '') return;
    const given = [...url.searchParams].filter(([name, value]) => looksLikeCredential(name, value));
    this.secrets.push(...given.map(([, value]) => value));
    (given.length > 0 ? this.secrets : this.ordinary).push(url.search.slice(1));
  }

  /** Moves user and password of a url to the header: fetch rejects such a url and quotes it in the error. */
  #moveCredentials(url: URL): Record<string, string> {
    if (url.username === '' && url.password === '') return {};
    const [user, password] = [url.username, url.password].map(decoded) as [string, string];
    const credentials = Buffer.from(`${user}:${password}`).toString('base64');
    this.secrets.push(password === '' ? user : password, url.password, credentials);
    url.username = '';
    url.password = '';
    return { authorization: `Basic ${credentials}` };
  }

  async #referredSecret(field: string, text: string): Promise<string> {
    const ref = parseAuthRef(text);
    if (ref === null) throw this.#invalid(`${field} must be env:NAME or file:PATH`);
    if (ref.kind === 'env') return this.resolve(field, referenceTo(ref.name));
    const file = await this.#source.readFile(ref.path);
    if (file === 'missing') throw this.#missing(`${field} names ${ref.path}, which cannot be read`);
    if (file === 'refused')
      throw this.#refused(`${field} names ${ref.path}, which this node does not allow servers to use`);
    if ('unsafe' in file) throw this.#refused(`${field}: ${file.unsafe}`);
    return file.text;
  }

  #header(field: string, value: string): string {
    const problem = headerValueProblem(value);
    if (problem !== null) throw this.#invalid(`${field} ${problem}`);
    return value;
  }

  #missing(what: string): McpConnectionError {
    return new McpConnectionError(this.#serverId, 'env_missing', `server "${this.#serverId}": ${what}`);
  }

  #refused(what: string): McpConnectionError {
    return new McpConnectionError(this.#serverId, 'env_refused', `server "${this.#serverId}": ${what}`);
  }

  #invalid(what: string): McpConnectionError {
    return new McpConnectionError(this.#serverId, 'record_invalid', `server "${this.#serverId}": ${what}`);
  }
}

/** The credential without its scheme is a secret as well. */
function withoutScheme(value: string): string {
  return value.replace(/^\S+ +/, '');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
