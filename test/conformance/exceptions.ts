/** Why a scenario is not run: what it tests is no aim of this project, or is not built yet. By its name, or its beginning. */
export const exceptions: readonly { readonly scenarios: RegExp; readonly suite?: string; readonly reason: string }[] = [
  { scenarios: /^auth\/dpop/, reason: 'tokens bound to a key (DPoP) are not supported' },
  { scenarios: /^auth\/wif-/, reason: 'workload identity is not supported' },
  {
    scenarios: /^auth\/(?:cross-app-access|enterprise-managed)/,
    reason: 'access across applications is not supported',
  },
  {
    scenarios: /^auth\/2025-03-26-oauth-metadata-backcompat$/,
    suite: 'released',
    reason: 'its authorization server names another issuer than itself, which is refused; the newer suite mends that',
  },
  { scenarios: /^sep-2640-/, reason: 'skills are an extension that is not supported' },
];

export function exceptionOf({ name, suite }: { readonly name: string; readonly suite: string }): string | null {
  const applies = ({ scenarios, suite: only = suite }: (typeof exceptions)[number]) =>
    only === suite && scenarios.test(name);
  return exceptions.find(applies)?.reason ?? null;
}
