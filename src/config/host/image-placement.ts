/**
 * Where the model behind a backend looks at images of tool results: nowhere, in a message of the user that follows the
 * results, or in the message of the result itself.
 */
export const imagePlacements = ['none', 'user_message', 'tool_message'] as const;
export type ImagePlacement = (typeof imagePlacements)[number];
