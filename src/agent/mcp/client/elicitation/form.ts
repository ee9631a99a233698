/** One of the values that a server lets one choose from. */
export interface FormOption {
  readonly value: string;
  /** In the server's words. */
  readonly title: string | null;
}

interface FieldWords {
  readonly name: string;
  /** In the server's words. */
  readonly title: string | null;
  readonly description: string | null;
  readonly required: boolean;
}

/** One thing that a server wants to know. Absent bounds and defaults are null. */
export type FormField = FieldWords &
  (
    | {
        readonly kind: 'text';
        readonly minLength: number | null;
        readonly maxLength: number | null;
        /** `email`, `uri`, `date`, `date-time`, or one that is not known here and not checked. */
        readonly format: string | null;
        readonly default: string | null;
      }
    | {
        readonly kind: 'number';
        readonly integer: boolean;
        readonly minimum: number | null;
        readonly maximum: number | null;
        readonly default: number | null;
      }
    | { readonly kind: 'boolean'; readonly default: boolean | null }
    | { readonly kind: 'choice'; readonly options: readonly FormOption[]; readonly default: string | null }
    | {
        readonly kind: 'choices';
        readonly options: readonly FormOption[];
        readonly minItems: number | null;
        readonly maxItems: number | null;
        readonly default: readonly string[] | null;
      }
  );
