import { errorCode } from '../../base/errors.ts';
import { ConfigError } from '../../config/config-error.ts';
import { loadHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { readKey } from '../../config/secret-reference.ts';
import { type AuditKey, auditKey } from '../../server/audit/chain.ts';
import { rotatedFiles } from '../../server/audit/file.ts';
import type { Secret } from '../../server/secrets/secret.ts';
import { readSecretFile } from '../../server/secrets/secret-file.ts';
import type { Call, FlagValues } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';
import { wantsColours } from '../formatting.ts';
import type { auditVerifyFlags, TailValues } from './flags.ts';
import { parseTailFlags, tailAudit } from './tail.ts';
import { verifyAudit } from './verify.ts';

type VerifyFlags = FlagValues<typeof auditVerifyFlags> & { readonly config: string | undefined };

const print = (text: string) => process.stdout.write(text);

/** `spear audit verify [FILE...]` */
export async function verifyCommand({ flags, args }: Call<VerifyFlags>): Promise<number> {
  const keys = flags.key.map((reference) => namedKey(reference));
  const request = { json: flags.json, strict: flags.strict, print };
  if (args.length > 1) return verifyAudit(args, { ...request, keys });
  const { path, key } = await oneFile(args[0], flags.config);
  return verifyAudit(withRotated(path), { ...request, keys: keys.length === 0 && key !== null ? [key()] : keys });
}

type TailCommandFlags = TailValues & Pick<VerifyFlags, 'json' | 'config'>;

/** `spear audit tail [FILE]` */
export async function tailCommand({ flags, args }: Call<TailCommandFlags>): Promise<number> {
  const { path } = await oneFile(args[0], flags.config);
  const { json } = flags;
  return tailAudit(path, parseTailFlags(flags, new Date()), { print, json, colours: wantsColours() });
}

/** The named file, else audit.file of the config with its key. */
async function oneFile(
  named: string | undefined,
  config: string | undefined,
): Promise<{ readonly path: string; readonly key: (() => AuditKey) | null }> {
  if (named !== undefined) return { path: named, key: null };
  const { audit } = await loadHostConfig({ file: config, env: processEnvironment }).catch(asUsage);
  if (audit.file === null) throw new UsageError('missing FILE: none is given, and the config has no audit.file');
  const { key } = audit;
  return { path: audit.file, key: key && (() => keyOf(key)) };
}

const namedKey = (reference: string): AuditKey =>
  keyOf(() => readKey(reference, '--key', { env: processEnvironment, readFile: readSecretFile }));

function keyOf(read: () => Secret): AuditKey {
  try {
    return auditKey(read().reveal());
  } catch (error) {
    return asUsage(error);
  }
}

function asUsage(error: unknown): never {
  throw error instanceof ConfigError ? new UsageError(error.message) : error;
}

function withRotated(path: string): string[] {
  try {
    return [...rotatedFiles(path), path];
  } catch (error) {
    throw new UsageError(`${path}: cannot be read (${errorCode(error)})`);
  }
}
