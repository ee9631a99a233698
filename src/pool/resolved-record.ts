import type { McpServerRecord } from '../protocol/record.ts';
import { looksLikeCredential } from '../protocol/record-credentials.ts';
import { headerValueProblem, urlProblem } from '../protocol/record-values.ts';
import {
  hasReference,
  parseAuthRef,
  type ReferenceLookup,
  referenceTo,
  resolveReferences,
} from '../protocol/references.ts';
import { McpConnectionError } from './errors.ts';
import { createRedactor, MIN_CONTENT_SECRET_CHARS, type Redact } from './redaction.ts';
import type { SecretSource } from './secret-source.ts';
import type { HttpTarget } from './transport/http-target.ts';

/** A record as it is used to connect. Lives as long as the attempt or the connection, and is never shown to anyone. */
export interface ResolvedRecord {
  readonly env: Readonly<Record<string, string>>;
  readonly http: HttpTarget | null;
  readonly redact: Redact;
  /** For what tools answer. */
  readonly redactContent: Redact;
}

const authScheme = /^[A-Za-z][A-Za-z0-9-]* +\S/;

/** @throws McpConnectionError with `env_missing` or `env_refused`, naming the field and the variable, never a value */
export async function resolveRecord(record: McpServerRecord, source: SecretSource): Promise<ResolvedRecord> {
  const resolver = new Resolver(record.server_id, source);
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(record.stdio?.env ?? {})) {
    env[name] = resolver.resolve(`stdio.env.${name}`, value);
    if (hasReference(value) || looksLikeCredential(name, value)) resolver.secrets.push(env[name]);
  }
  const http = record.http === null ? null : await resolver.target(record.http);
  const { secrets } = resolver;
  const redactContent = createRedactor(secrets, MIN_CONTENT_SECRET_CHARS);
  return { env, http, redact: createRedactor(secrets), redactContent };
}

class Resolver {
  readonly secrets: string[] = [];
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
        if (value !== undefined) this.secrets.push(value);
        return value;
      },
    };
  }

  resolve(field: string, value: string): string {
    const resolved = resolveReferences(value, this.#lookup);
    if (typeof resolved === 'string') return resolved;
    if ('missing' in resolved) throw this.#missing(`${field} refers to ${resolved.missing}, which is not set`);
    throw this.#refused(`${field} refers to ${resolved.refused}, which records may not use on this node`);
  }

  async target(http: NonNullable<McpServerRecord['http']>): Promise<HttpTarget> {
    const text = this.resolve('http.url', http.url);
    const problem = urlProblem(text);
    if (problem !== null || !URL.canParse(text)) throw this.#invalid(`http.url ${problem ?? 'is not a valid url'}`);
    const url = new URL(text);
    this.secrets.push(url.password, url.search.slice(1));
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(http.headers)) {
      headers[name] = this.#header(`http.headers.${name}`, this.resolve(`http.headers.${name}`, value));
    }
    if (http.auth_ref === null) return { url, headers };
    for (const name of Object.keys(headers)) if (name.toLowerCase() === 'authorization') delete headers[name];
    const secret = (await this.#authSecret(http.auth_ref)).trim();
    const authorization = authScheme.test(secret) ? secret : `Bearer ${secret}`;
    this.secrets.push(secret);
    return { url, headers: { ...headers, authorization: this.#header('http.auth_ref', authorization) } };
  }

  async #authSecret(text: string): Promise<string> {
    const ref = parseAuthRef(text);
    if (ref === null) throw this.#invalid('http.auth_ref must be env:NAME or file:PATH');
    if (ref.kind === 'env') return this.resolve('http.auth_ref', referenceTo(ref.name));
    const file = await this.#source.readFile(ref.path);
    if (file === 'missing') throw this.#missing(`http.auth_ref names ${ref.path}, which cannot be read`);
    if (file === 'refused')
      throw this.#refused(`http.auth_ref names ${ref.path}, which records may not use on this node`);
    return file.text;
  }

  #header(field: string, value: string): string {
    const problem = headerValueProblem(value);
    if (problem !== null) throw this.#invalid(`${field} ${problem}`);
    // The scheme in front of a credential is no secret, but the credential is one without it too.
    this.secrets.push(value, value.replace(/^\S+ +/, ''));
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
