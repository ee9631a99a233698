import { join } from 'node:path';
import type { OidcConfig } from '../../../../src/config/registry/oidc.ts';
import { loadRegistryConfig } from '../../../../src/config/registry/registry-config.ts';

/** The `[oidc]` of a config file, read as the registry reads it. */
export function oidcOf(lines: string, env: NodeJS.ProcessEnv = {}): OidcConfig | null {
  return loadRegistryConfig({
    flags: { config: '/etc/sms.toml', data: join('/var', 'registry.db') },
    env,
    readFile: () => `[oidc]\n${lines}`,
  }).oidc;
}

export const usual = (issuer: string, more = '') =>
  oidcOf(`issuer = "${issuer}"
client_id = "spear"
roles_claim = "groups"
namespace_claim = "team"
${more}
[oidc.roles]
spear-admins = ["admin"]
sre = ["operator", "approver"]
`);
