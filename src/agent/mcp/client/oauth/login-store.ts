import { closeSync, mkdirSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { errorCode } from '../../../../base/error-text.ts';
import { writePrivateFile } from '../../../../base/private-file.ts';
import { privateDirectoryProblem } from '../../../../config/private-directory.ts';
import { knownSecrets } from '../../../../server/secrets/redactor.ts';
import { readSecretFile, SecretFileError } from '../../../../server/secrets/secret-file.ts';
import { OAuthRefused } from './oauth-failure.ts';

const loginSchema = z.object({
  version: z.literal(1),
  /** The server that the tokens are for: another one under the same id does not get them. */
  server_url: z.string(),
  issuer: z.string(),
  /** Where the issuer's metadata is looked for. */
  authorization_server: z.string(),
  resource: z.string().nullable(),
  /** The client that logged in, where the record names none. */
  client: z
    .object({
      client_id: z.string(),
      client_secret: z.string().optional(),
      token_endpoint_auth_method: z.string().optional(),
    })
    .nullable(),
  access_token: z.string(),
  refresh_token: z.string().nullable(),
  scope: z.string().nullable(),
  expires_at_ms: z.number().nullable(),
  renew_at_ms: z.number().nullable(),
  /** What the server asked for since: the next login asks for it too. */
  wanted_scope: z.string().nullable(),
});

/** What `spear servers login` brought, for one server. */
export type StoredLogin = Readonly<z.output<typeof loginSchema>>;

const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_FILE = 0o600;
/** A refresh takes a few requests, each of at most 15 s; a lock that is older was left behind by a process that died. */
const STALE_LOCK_MS = 60_000;
const LOCK_WAIT_MS = 30_000;
const LOCK_POLL_MS = 25;

/** Tokens of people, one file a server, for this user alone. Nothing else holds them. */
export class LoginStore {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Null: there is none for this server.
   * @throws OAuthRefused where it is there and not kept like a secret
   */
  read(serverId: string, serverUrl: URL): StoredLogin | null {
    let text: string;
    try {
      text = readSecretFile(this.#file(serverId));
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return null;
      throw new OAuthRefused(
        error instanceof SecretFileError
          ? error.message
          : `${this.#file(serverId)} cannot be read (${errorCode(error)})`,
      );
    }
    const login = parseLogin(text);
    if (login === null || login.server_url !== serverUrl.href) return null;
    for (const secret of [login.access_token, login.refresh_token, login.client?.client_secret]) {
      if (secret != null) knownSecrets.addOfRecord(secret);
    }
    return login;
  }

  write(serverId: string, login: StoredLogin): void {
    this.#open();
    writePrivateFile(this.#file(serverId), `${JSON.stringify(login)}\n`);
  }

  /** Whether there was one. */
  remove(serverId: string): boolean {
    try {
      rmSync(this.#file(serverId));
      return true;
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return false;
      throw error;
    }
  }

  /** One process at a time refreshes: a refresh token that is used twice ends the login at many servers. */
  async locked<T>(serverId: string, work: () => Promise<T>): Promise<T> {
    this.#open();
    const lock = `${this.#file(serverId)}.lock`;
    await takeLock(lock);
    try {
      return await work();
    } finally {
      rmSync(lock, { force: true });
    }
  }

  #open(): void {
    mkdirSync(this.#directory, { recursive: true, mode: PRIVATE_DIRECTORY });
    const problem = privateDirectoryProblem(this.#directory);
    if (problem !== null) throw new OAuthRefused(problem);
  }

  #file(serverId: string): string {
    return join(this.#directory, `${serverId}.json`);
  }
}

function parseLogin(text: string): StoredLogin | null {
  try {
    return loginSchema.parse(JSON.parse(text));
  } catch {
    return null;
  }
}

async function takeLock(path: string): Promise<void> {
  const end = performance.now() + LOCK_WAIT_MS;
  for (;;) {
    try {
      const file = openSync(path, 'wx', PRIVATE_FILE);
      writeSync(file, `${process.pid}\n`);
      closeSync(file);
      return;
    } catch (error) {
      if (errorCode(error) !== 'EEXIST') throw error;
    }
    if (isLeftBehind(path)) rmSync(path, { force: true });
    else if (performance.now() > end) throw new Error(`${path} is locked by another process`);
    else await delay(LOCK_POLL_MS);
  }
}

function isLeftBehind(path: string): boolean {
  try {
    if (Date.now() - statSync(path).mtimeMs > STALE_LOCK_MS) return true;
    const pid = Number(readFileSync(path, 'utf8'));
    if (!Number.isInteger(pid) || pid <= 0 || pid === process.pid) return false;
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return errorCode(error) === 'ESRCH';
  }
}
