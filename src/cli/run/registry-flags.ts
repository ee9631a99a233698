import type { RegistryOptions } from '../../run/open-registry.ts';
import type { TaskWords } from '../../run/run-options.ts';
import type { FlagValues } from '../command-table.ts';
import type { registryFlagSpecs } from './flags.ts';

type RegistryFlags = FlagValues<typeof registryFlagSpecs> & { readonly requireRegistry: boolean };

export function registryOptions(flags: RegistryFlags): RegistryOptions {
  const { mcpDir: directory, strict, requireRegistry: required } = flags;
  const { sms: address, smsToken: token, smsTokenFile: tokenFile, smsCa: ca } = flags;
  return { directory, strict, required, sms: address === undefined ? undefined : { address, token, tokenFile, ca } };
}

/** Option names in messages. */
export const flagWords: TaskWords = {
  servers: 'servers',
  directory: '--mcp-dir',
  sms: '--sms',
  smsTokenFile: '--sms-token-file',
  smsCa: '--sms-ca',
  required: '--require-registry',
  refused: () => 'refused by --strict because of the files above',
  backend: '--backend',
  approvalRules: 'mcp.approval_rules',
  service: 'spear-run',
  stubUsed: 'no model is configured, a stub answers; see spear-run --help, "The model"',
};
