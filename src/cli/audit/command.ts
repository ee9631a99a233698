import { type AuditKey, auditKey } from '../../audit/key.ts';
import { rotatedFiles } from '../../audit/rotation.ts';
import { errorCode } from '../../base/error-text.ts';
import { didYouMean } from '../../base/nearest-key.ts';
import { ConfigError } from '../../config/config-error.ts';
import { loadHostConfig } from '../../config/host/host-config.ts';
import { processEnvironment } from '../../config/process-environment.ts';
import { readKey } from '../../config/read-key.ts';
import type { Secret } from '../../secrets/secret.ts';
import { readSecretFile } from '../../secrets/secret-file.ts';
import { spearExitCodes } from '../exit-codes.ts';
import { wantsColours } from '../paint.ts';
import { parseFlags } from '../parse-flags.ts';
import { UsageError } from '../usage-error.ts';
import { auditHelp } from './help.ts';
import { tailAudit } from './tail.ts';
import { parseTailFlags, tailOptions } from './tail-flags.ts';
import { verifyAudit } from './verify.ts';

const shared = {
  json: { type: 'boolean' },
  config: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const;

const verifyOptions = { key: { type: 'string', multiple: true }, strict: { type: 'boolean' } } as const;

/** `spear audit …`: nothing of it speaks to a registry. */
export async function auditCommand(argv: readonly string[]): Promise<number> {
  const [verb, ...rest] = argv;
  const output = { print: (text: string) => process.stdout.write(text), isTerminal: process.stdout.isTTY === true };
  switch (verb) {
    case 'verify': {
      const { values, positionals } = parseFlags(rest, { ...shared, ...verifyOptions }, 'spear audit');
      if (values.help) return printHelp(output.print);
      const keys = (values.key ?? []).map((reference) => namedKey(reference));
      const asked = { json: values.json ?? false, strict: values.strict ?? false, print: output.print };
      if (positionals.length > 1) return verifyAudit(positionals, { ...asked, keys });
      const { path, key } = await oneFile(positionals[0], values.config);
      return verifyAudit(withRotated(path), { ...asked, keys: keys.length === 0 && key !== null ? [key()] : keys });
    }
    case 'tail': {
      const { values, positionals } = parseFlags(rest, { ...shared, ...tailOptions }, 'spear audit');
      if (values.help) return printHelp(output.print);
      if (positionals.length > 1)
        throw new UsageError('spear audit tail shows one FILE; its rotated files belong to it');
      const { path } = await oneFile(positionals[0], values.config);
      return tailAudit(path, parseTailFlags(values, new Date()), {
        ...output,
        colours: wantsColours(),
        json: values.json ?? false,
      });
    }
    case undefined:
    case '-h':
    case '--help':
      return printHelp(output.print);
    default: {
      const hint = didYouMean(`audit ${verb}`, ['audit verify', 'audit tail']) ?? 'there are audit verify, audit tail';
      throw new UsageError(`there is no "audit ${verb}"; ${hint}`);
    }
  }
}

/** The file that was named, or that of this node's config, with its key. */
async function oneFile(
  named: string | undefined,
  config: string | undefined,
): Promise<{ readonly path: string; readonly key: (() => AuditKey) | null }> {
  if (named !== undefined) return { path: named, key: null };
  const { audit } = await loadHostConfig({ file: config, env: processEnvironment }).catch(asUsage);
  if (audit.file === null) throw new UsageError('which FILE? none was named, and the config file has no audit.file');
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
    throw new UsageError(`${path}: it cannot be read (${errorCode(error)})`);
  }
}

function printHelp(print: (text: string) => unknown): number {
  print(auditHelp);
  return spearExitCodes.ok;
}
