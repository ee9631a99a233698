import type { Vault } from './vault.ts';

/** What a user gets wrong with a secret at hand, as flags of `spear-run`. */
export const mistakes: readonly ((vault: Vault) => string[])[] = [
  ({ plant }) => ['--env', plant('env-flag', true)],
  ({ plant }) => ['--sms-token', plant('sms-token-flag', true), '--nonsense'],
  ({ plant }) => ['--sms', `http://me:${plant('sms-password', true)}@127.0.0.1:1`],
  ({ plant }) => [`--${plant('flag', true)}`],
  (vault) =>
    toml(
      vault,
      `[backends.a]\nkind = "openai"\napi_key = "${vault.plant('key-literal', true)}"\nbase_url = "x"\nmodel = "m"\n`,
    ),
  (vault) => toml(vault, `[backends.a]\nkind = "openai"\napi_key = ${vault.plant('key-unquoted', true)}\n`),
  (vault) => toml(vault, `[egress]\nallow_hosts = ["http://${vault.plant('host', true)}"]\n`),
  (vault) => toml(vault, `[audit]\nkey = "${vault.plant('audit-key-literal', true)}"\n`),
  (vault) => ['--task-config', vault.file('task.json', `{"env": {"TOKEN": "${vault.plant('task-mistake', true)}", }}`)],
  (vault) => [
    '--task-config',
    vault.file('task.json', `{"config": {"mcp.enabled": "${vault.plant('task-value', true)}"}}`),
  ],
];

const toml = (vault: Vault, text: string) => ['--config', vault.file('config.toml', text)];
