import type { JsonValue } from '../../base/json.ts';
import type { RegistryOptions, RegistryWords } from '../../run/open-registry.ts';

/** What a diagnosis is told: the flags that `spear doctor` and `spear explain` share. */
export interface DiagnosisFlags {
  readonly registry: RegistryOptions;
  /** What those options are called. */
  readonly words: RegistryWords;
  readonly taskConfig: string | undefined;
  readonly config: string | undefined;
  /** SET_PARAMs that the guest is thought to make. */
  readonly params: readonly (readonly [key: string, value: JsonValue])[];
  /** For each step. */
  readonly timeoutMs: number;
  readonly json: boolean;
}
