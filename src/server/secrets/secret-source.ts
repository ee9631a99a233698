import type { ReferencePolicy } from './reference-policy.ts';
import { mayReferToFile, mayReferToVariable } from './reference-policy.ts';
import type { ReferenceLookup } from './references.ts';
import { readSecretFile, SecretFileError } from './secret-file.ts';

/** `unsafe` says why a file that is there is not used, and what to do about it. */
export type SecretFile = { readonly text: string } | { readonly unsafe: string } | 'missing' | 'refused';

/** What records may refer to on this node: variables, and files for `auth_ref`. */
export interface SecretSource {
  readonly variables: ReferenceLookup;
  readFile(path: string): Promise<SecretFile>;
}

/** `environment` is the host's own; only `src/config/` reads it. */
export function createSecretSource(
  policy: ReferencePolicy,
  environment: Readonly<Record<string, string | undefined>>,
): SecretSource {
  return {
    variables: {
      allows: (name) => mayReferToVariable(name, policy),
      // Every object has a "constructor", and it is no variable.
      get: (name) => (Object.hasOwn(environment, name) ? environment[name] : undefined),
    },
    async readFile(path) {
      if (!mayReferToFile(path, policy)) return 'refused';
      try {
        // A link must not lead out of what the policy allows.
        const real = await process.getBuiltinModule('node:fs/promises').realpath(path);
        return mayReferToFile(real, policy) ? { text: readSecretFile(real) } : 'refused';
      } catch (error) {
        return error instanceof SecretFileError ? { unsafe: error.message } : 'missing';
      }
    },
  };
}
