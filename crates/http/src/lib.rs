//! Answers as HTTP: status, headers, problem documents.
