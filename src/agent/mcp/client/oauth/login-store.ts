import { closeSync, mkdirSync, openSync, readFileSync, rmSync, statSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { errorCode } from '../../../../base/errors.ts';
import { writePrivateFile } from '../../../../base/private-file.ts';
import { privateDirectoryProblem } from '../../../../config/directories.ts';
import { knownSecrets } from '../../../../server/secrets/redactor.ts';
import { readSecretFile, SecretFileError } from '../../../../server/secrets/secret-file.ts';
import { PermanentTokenError } from './token-errors.ts';

const loginSchema = z.object({
  version: z.literal(1),
  /** URL of the MCP server. A login is ignored if the server with its id has another URL now. */
  server_url: z.string(),
  issuer: z.string(),
  /** URL of the authorization server, for its metadata. */
  authorization_server: z.string(),
  resource: z.string().nullable(),
  /** The client of the login, if the record names none. */
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
  /** Scope that the server demanded after the login; the next login requests it. */
  wanted_scope: z.string().nullable(),
});

/** The login of a user at one server, as stored by `spear servers login`. */
export type StoredLogin = Readonly<z.output<typeof loginSchema>>;

const PRIVATE_DIRECTORY = 0o700;
const PRIVATE_FILE = 0o600;
/** A refresh takes a few requests of at most 15 s each; an older lock is from a process that died. */
const STALE_LOCK_MS = 60_000;
const LOCK_WAIT_MS = 30_000;
const LOCK_POLL_MS = 25;

/** Logins on disk: one file per server, accessible to this user only. */
export class LoginStore {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /**
   * Null: there is no login for this server.
   * @throws PermanentTokenError if the file is accessible to other users, or cannot be read
   */
  read(serverId: string, serverUrl: URL): StoredLogin | null {
    let text: string;
    try {
      text = readSecretFile(this.#file(serverId));
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return null;
      throw new PermanentTokenError(
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

  /** False: there was no login. */
  remove(serverId: string): boolean {
    try {
      rmSync(this.#file(serverId));
      return true;
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return false;
      throw error;
    }
  }

  /** Runs `work` under a lock that all processes share: many servers revoke a login whose refresh token is used twice. */
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
    if (problem !== null) throw new PermanentTokenError(problem);
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
    if (isStale(path)) rmSync(path, { force: true });
    else if (performance.now() > end) throw new Error(`${path} is locked by another process`);
    else await delay(LOCK_POLL_MS);
  }
}

function isStale(path: string): boolean {
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
