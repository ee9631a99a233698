import { processEnvironment } from '../../config/process-environment.ts';
import { findRegistryAdmin, takeWarning } from '../../config/registry/registry-endpoint.ts';
import { ApiClient, registryPeer } from '../api-client.ts';
import type { FlagValues, Run } from '../command-table.ts';
import { UsageError } from '../exit-codes.ts';
import { outputOf } from '../say.ts';
import type { SpearCommand } from './command.ts';
import type { registryConnection } from './flags.ts';

const smsWords = { sms: '--sms', tokenFile: '--token-file', ca: '--ca' };

/** Runs a command with a client for the registry that its flags name. */
export function withRegistry<Flags>(run: SpearCommand<Flags>): Run<Flags & FlagValues<typeof registryConnection>> {
  return async ({ flags, args, program }) => {
    if (flags.token !== undefined && flags.tokenFile !== undefined) {
      throw new UsageError('--token and --token-file cannot be combined');
    }
    const output = outputOf(program.name);
    const endpoint = findRegistryAdmin(flags, processEnvironment, smsWords);
    const warning = takeWarning(endpoint, processEnvironment);
    if (warning !== null) output.say(warning);
    const client = new ApiClient(endpoint, registryPeer, flags.timeoutMs);
    return run({ flags, args, client, env: processEnvironment, ...output });
  };
}
